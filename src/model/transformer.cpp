#include <torch/nn/init.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/normalization.h>

#include <cmath>

#include "autotrain/checkpoint.h"
#include "base/text.h"
#include "model/linear.h"
#include "model/models.h"

namespace autotrain {
namespace {

struct TransformerOptions {
  int64_t vocabulary = 0;
  int64_t context = 0;
  int64_t layers = 0;
  int64_t width = 0;
  int64_t heads = 0;
  double dropout = 0;
  bool tied = true;
};

torch::nn::LayerNorm layer_norm(int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}));
}

// Pre-normalised block: attention and a fourfold GELU layer, each added to its input.
class DecoderBlock final : public torch::nn::Module {
 public:
  explicit DecoderBlock(const TransformerOptions& o) : heads_(o.heads) {
    dropout_ = register_module("dropout", torch::nn::Dropout(o.dropout));
    ln1_ = register_module("ln1", layer_norm(o.width));
    qkv_ = register_module("qkv", Linear(o.width, 3 * o.width));
    projection_ = register_module("projection", Linear(o.width, o.width));
    ln2_ = register_module("ln2", layer_norm(o.width));
    expand_ = register_module("expand", Linear(o.width, 4 * o.width));
    contract_ = register_module("contract", Linear(4 * o.width, o.width));
    // The residual stream adds 2 × layers terms (Radford et al. 2019).
    const double deviation = 0.02 / std::sqrt(2.0 * static_cast<double>(o.layers));
    for (Linear* layer : {&qkv_, &expand_}) torch::nn::init::normal_((*layer)->weight, 0, 0.02);
    for (Linear* layer : {&projection_, &contract_}) torch::nn::init::normal_((*layer)->weight, 0, deviation);
    for (Linear* layer : {&qkv_, &projection_, &expand_, &contract_}) torch::nn::init::zeros_((*layer)->bias);
  }

  torch::Tensor forward(torch::Tensor x) {
    x = x + dropout_->forward(attend(ln1_->forward(x)));
    return x + dropout_->forward(contract_->forward(at::gelu(expand_->forward(ln2_->forward(x)))));
  }

 private:
  // x: [n, length, width]
  torch::Tensor attend(const torch::Tensor& x) {
    const int64_t n = x.size(0), length = x.size(1), width = x.size(2);
    const auto parts = qkv_->forward(x).view({n, length, 3, heads_, width / heads_}).permute({2, 0, 3, 1, 4});
    const torch::Tensor y = at::scaled_dot_product_attention(
        parts[0], parts[1], parts[2], {}, dropout_->is_training() ? dropout_->options.p() : 0.0,
        /*is_causal=*/true);
    return projection_->forward(y.transpose(1, 2).reshape({n, length, width}));
  }

  int64_t heads_;
  torch::nn::Dropout dropout_{nullptr};
  torch::nn::LayerNorm ln1_{nullptr}, ln2_{nullptr};
  Linear qkv_{nullptr}, projection_{nullptr}, expand_{nullptr}, contract_{nullptr};
};

// tokens [n, length] int64 → logits [n, length, vocabulary]
class Transformer final : public Network {
 public:
  explicit Transformer(const TransformerOptions& o) {
    token_ = register_module("token", torch::nn::Embedding(o.vocabulary, o.width));
    position_ = register_module("position", torch::nn::Embedding(o.context, o.width));
    torch::nn::init::normal_(token_->weight, 0, 0.02);
    torch::nn::init::normal_(position_->weight, 0, 0.02);
    for (int64_t i = 0; i < o.layers; ++i) {
      blocks_.push_back(register_module("block" + std::to_string(i), std::make_shared<DecoderBlock>(o)));
    }
    dropout_ = register_module("dropout", torch::nn::Dropout(o.dropout));
    ln_ = register_module("ln", layer_norm(o.width));
    if (o.tied) return;
    head_ = register_module("head", Linear(torch::nn::LinearOptions(o.width, o.vocabulary).bias(false)));
    torch::nn::init::normal_(head_->weight, 0, 0.02);
  }

  torch::Tensor forward(torch::Tensor tokens) override {
    const torch::Tensor positions = position_->weight.slice(0, 0, tokens.size(1));
    torch::Tensor x = token_->forward(tokens) + positions;
    x = dropout_->forward(x);
    for (const auto& each : blocks_)
      x = checkpoint(*each, x, [block = each.get()](const torch::Tensor& y) { return block->forward(y); });
    return at::linear(ln_->forward(x), head_.is_empty() ? token_->weight : head_->weight_in_use());
  }

 private:
  torch::nn::Dropout dropout_{nullptr};
  torch::nn::Embedding token_{nullptr}, position_{nullptr};
  std::vector<std::shared_ptr<DecoderBlock>> blocks_;
  torch::nn::LayerNorm ln_{nullptr};
  Linear head_{nullptr};
};

std::shared_ptr<Network> make_transformer(const Parameters& p, const SampleShape& shape) {
  if (shape.vocabulary == 0)
    fail_model("transformer", "takes tokens", "use data.train.dataset: text, or another model");
  TransformerOptions options{.vocabulary = shape.vocabulary,
                             .context = shape.input[0],
                             .layers = p.integer("layers"),
                             .width = p.integer("width"),
                             .heads = p.integer("heads"),
                             .dropout = p.real("dropout"),
                             .tied = p.flag("tied")};
  if (options.width % options.heads != 0) {
    fail_model("transformer",
               cat("width ", options.width, " is not a multiple of its ", options.heads, " heads"),
               "choose model.width and model.heads so that it is");
  }
  return std::make_shared<Transformer>(options);
}

}  // namespace

ModelRow transformer_row() {
  return {{"transformer",
           "Decoder-only transformer over tokens, with learned positions and causal attention.",
           {integer_key("layers", "Blocks.", 4).from(1, 1000),
            integer_key("width", "Size of a token's vector; a multiple of heads.", 256).from(1, 1 << 16),
            integer_key("heads", "Attention heads.", 4).from(1, 1024),
            real_key("dropout",
                     "Probability that an element of a residual branch or attention weight is dropped.", 0.0)
                .from(0, 0.99),
            bool_key("tied", "Use the token embedding as the output layer too.", true)}},
          make_transformer,
          /*is_program=*/false,
          /*predicts_once=*/false};
}

}  // namespace autotrain
