#include "model/experts.h"

#include <torch/nn/functional/activation.h>
#include <torch/nn/init.h>

#include <algorithm>
#include <cmath>

namespace autotrain {
namespace {

// The linear layers in a stack of weights, or what they were packed into. Taken apart at once: the gradient
// of each alone would be as large as that of all.
class Layers {
 public:
  Layers(const torch::Tensor& weights, const torch::Tensor& biases, const std::vector<LinearProduct>& packed)
      : weights_(weights.unbind(0)), biases_(biases.unbind(0)), packed_(packed) {}

  torch::Tensor product(size_t e, const torch::Tensor& inputs) const {
    return packed_.empty() ? at::linear(inputs, weights_[e], biases_[e]) : packed_[e](inputs);
  }

 private:
  const std::vector<torch::Tensor> weights_, biases_;
  const std::vector<LinearProduct>& packed_;
};

}  // namespace

// Pairs of a token and an expert that computes it.
struct ExpertsImpl::Choice {
  torch::Tensor weights;  // [tokens, experts] float32: 0 where there is no pair
  torch::Tensor pairs;    // [tokens, experts] bool
};

int64_t ExpertOptions::capacity_of(int64_t context) const {
  if (capacity <= 0) return context;
  const double even = static_cast<double>(per_token * context) / static_cast<double>(experts);
  return std::max<int64_t>(1, std::llround(std::ceil(capacity * even)));
}

ExpertsImpl::ExpertsImpl(int64_t width, int64_t context, const ExpertOptions& options, double deviation)
    : o_(options), capacity_(options.capacity_of(context)) {
  const int64_t inner = 4 * width;
  gate_ = register_module("gate", Linear(torch::nn::LinearOptions(width, o_.experts).bias(false)));
  expand_ = register_parameter("expand", torch::empty({o_.experts, inner, width}));
  expand_bias_ = register_parameter("expand_bias", torch::zeros({o_.experts, inner}));
  contract_ = register_parameter("contract", torch::empty({o_.experts, width, inner}));
  contract_bias_ = register_parameter("contract_bias", torch::zeros({o_.experts, width}));
  torch::nn::init::normal_(gate_->weight, 0, 0.02);
  torch::nn::init::normal_(expand_, 0, 0.02);
  torch::nn::init::normal_(contract_, 0, deviation);
}

torch::Tensor ExpertsImpl::forward(const torch::Tensor& x) {
  probabilities_ = probabilities_of(x);
  loads_.dropped = at::zeros({}, x.options().dtype(torch::kInt64));
  const Choice choice = o_.experts_choose ? choose_tokens(probabilities_) : choose_experts(probabilities_);
  loads_.tokens = choice.pairs.sum(0);
  return compute(x.reshape({-1, x.size(2)}), choice).view(x.sizes());
}

// In float32 from the gate's logits on: choices are made by small differences.
torch::Tensor ExpertsImpl::probabilities_of(const torch::Tensor& tokens) {
  torch::Tensor logits = gate_->forward(tokens).to(torch::kFloat32);
  if (o_.skew > 0) logits = logits - o_.skew * at::arange(1, o_.experts + 1, logits.options()).log();
  return logits.softmax(-1);
}

ExpertsImpl::Choice ExpertsImpl::choose_experts(const torch::Tensor& probabilities) {
  const auto [largest, experts] = probabilities.topk(o_.per_token, -1);
  chosen_ = at::zeros_like(probabilities, torch::kBool).scatter(-1, experts, true);
  const torch::Tensor pairs = keep_capacity(chosen_);
  torch::Tensor weights = probabilities * pairs;
  if (o_.per_token > 1) weights = weights / largest.sum(-1, /*keepdim=*/true);
  return {weights.flatten(0, 1), pairs.flatten(0, 1)};
}

// Of the tokens of a sequence that choose an expert, the first ones.
torch::Tensor ExpertsImpl::keep_capacity(const torch::Tensor& chosen) {
  if (o_.capacity <= 0 || !is_training()) return chosen;
  const torch::Tensor kept = chosen & (chosen.cumsum(1) <= capacity_);
  loads_.dropped = chosen.sum() - kept.sum();
  return kept;
}

ExpertsImpl::Choice ExpertsImpl::choose_tokens(const torch::Tensor& probabilities) const {
  const torch::Tensor all = probabilities.flatten(0, 1);
  const int64_t even = (all.size(0) * o_.per_token + o_.experts - 1) / o_.experts;
  const torch::Tensor tokens = std::get<1>(all.topk(std::min(even, all.size(0)), 0));
  const torch::Tensor pairs = at::zeros_like(all, torch::kBool).scatter(0, tokens, true);
  return {all * pairs, pairs};
}

torch::Tensor ExpertsImpl::compute(const torch::Tensor& tokens, const Choice& choice) {
  const torch::Tensor sum = at::zeros(tokens.sizes(), tokens.options().dtype(torch::kFloat32));
  const Layers expand(expand_, expand_bias_, packed_expand_),
      contract(contract_, contract_bias_, packed_contract_);
  for (int64_t e = 0; e < o_.experts; ++e) {
    const torch::Tensor its = choice.pairs.select(1, e).nonzero().squeeze(1);
    if (its.size(0) == 0) continue;
    const auto i = static_cast<size_t>(e);
    const torch::Tensor inner = at::gelu(expand.product(i, tokens.index_select(0, its)));
    const torch::Tensor made = contract.product(i, inner);
    const torch::Tensor weights = choice.weights.select(1, e).index_select(0, its).unsqueeze(1);
    sum.index_add_(0, its, made.to(torch::kFloat32) * weights);
  }
  return sum.to(tokens.scalar_type());
}

// Stack by stack, each as a whole: shapes are alike.
int64_t ExpertsImpl::pack(const Packing& packing) {
  const torch::NoGradGuard no_gradients;
  const auto pack_stack = [&](torch::Tensor& weights, const torch::Tensor& biases,
                              std::vector<LinearProduct>& packed) -> int64_t {
    std::vector<LinearProduct> products;
    for (int64_t e = 0; e < o_.experts; ++e) {
      auto product = packing(weights[e].detach(), biases[e].detach());
      if (!product) return 0;
      products.push_back(std::move(*product));
    }
    packed = std::move(products);
    weights.set_data(torch::empty({0}, weights.options().requires_grad(false)));
    return o_.experts;
  };
  return pack_stack(expand_, expand_bias_, packed_expand_) +
         pack_stack(contract_, contract_bias_, packed_contract_);
}

int64_t ExpertsImpl::quantize() {
  return pack(product_in_int8);
}

int64_t ExpertsImpl::keep_int8() {
  return pack(product_of_int8);
}

int64_t ExpertsImpl::keep_int4(int64_t group) {
  return pack([group](const torch::Tensor& weight, const torch::Tensor& bias) {
    return product_of_int4(weight, bias, group);
  });
}

void ExpertsImpl::forget() {
  probabilities_ = chosen_ = torch::Tensor();
}

torch::Tensor ExpertsImpl::balance(const torch::Tensor& counted) const {
  const torch::Tensor counts = counted.to(torch::kFloat32).unsqueeze(-1);  // [n, length, 1]
  const torch::Tensor tokens = counts.sum(1).clamp_min(1);                 // [n, 1]
  if (o_.experts_choose) return at::ones({counted.size(0)}, counts.options());
  const torch::Tensor shares = (chosen_ * counts).sum(1) / (tokens * o_.per_token);
  const torch::Tensor means = (probabilities_ * counts).sum(1) / tokens;
  return static_cast<double>(o_.experts) * (shares * means).sum(-1);
}

int64_t ExpertsImpl::bytes_of_one() const {
  int64_t bytes = 0;
  for (const torch::Tensor* const each : {&expand_, &expand_bias_, &contract_, &contract_bias_})
    bytes += static_cast<int64_t>(each->nbytes()) / o_.experts;
  return bytes;
}

int64_t ExpertsImpl::products_of_token() const {
  return gate_->weight.numel() + o_.per_token * (expand_.numel() + contract_.numel()) / o_.experts;
}

double distinct_experts(const ExpertOptions& options, double tokens) {
  const auto all = static_cast<double>(options.experts);
  return all * (1 - std::pow(1 - static_cast<double>(options.per_token) / all, tokens));
}

}  // namespace autotrain
