#include "step/loss_surface.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "base/random.h"

namespace autotrain {
namespace {

using torch::autograd::grad;

// Of fused attention no second derivative is known, of the operators that it is made of there is.
class PlainAttention {
 public:
  PlainAttention()
      : flash_(context_.userEnabledFlashSDP()),
        efficient_(context_.userEnabledMemEfficientSDP()),
        cudnn_(context_.userEnabledCuDNNSDP()) {
    set(false, false, false);
  }
  ~PlainAttention() { set(flash_, efficient_, cudnn_); }
  PlainAttention(const PlainAttention&) = delete;
  PlainAttention& operator=(const PlainAttention&) = delete;

 private:
  void set(bool flash, bool efficient, bool cudnn) {
    context_.setSDPUseFlash(flash);
    context_.setSDPUseMemEfficient(efficient);
    context_.setSDPUseCuDNN(cudnn);
  }

  at::Context& context_ = at::globalContext();
  const bool flash_, efficient_, cudnn_;
};

// Where autograd does not see how a tensor came from the parameters, its derivatives would be taken for zero.
void check_seen(const torch::Tensor& tensor, const char* what) {
  if (!tensor.requires_grad())
    throw std::runtime_error(std::string("autograd does not see how the ") + what +
                             " depends on the weights");
}

torch::Tensor drawn(const torch::Tensor& like, uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return at::randn(like.sizes(), generator, torch::kFloat64).to(like.options());
}

double product_of(const torch::Tensor& a, const torch::Tensor& b) {
  return at::dot(a, b).item<double>();
}

}  // namespace

LossSurface::LossSurface(Task& task, std::function<void(const Use&)> each_batch)
    : task_(task), each_batch_(std::move(each_batch)) {
  for (const torch::Tensor& parameter : task_.module().parameters()) {
    if (!parameter.requires_grad()) continue;
    parameters_.push_back(parameter);
    size_ += parameter.numel();
  }
}

double LossSurface::loss() {
  const torch::NoGradGuard no_gradients;
  double sum = 0, weight = 0;
  each_batch_([&](const Batch& batch) {
    const LossTerms terms = task_.loss(batch);
    sum += terms.sum.item<double>();
    weight += terms.weight.item<double>();
  });
  return sum / weight;
}

torch::Tensor LossSurface::gradient() {
  const torch::AutoGradMode with_gradients(true);
  torch::Tensor sum = torch::zeros_like(weights());
  double weight = 0;
  each_batch_([&](const Batch& batch) {
    const LossTerms terms = task_.loss(batch);
    check_seen(terms.sum, "loss");
    sum +=
        flat(grad({terms.sum}, parameters_, {}, std::nullopt, /*create_graph=*/false, /*allow_unused=*/true));
    weight += terms.weight.item<double>();
  });
  return sum / weight;
}

torch::Tensor LossSurface::times_hessian(const torch::Tensor& direction) {
  const torch::AutoGradMode with_gradients(true);
  const PlainAttention plain;
  const std::vector<torch::Tensor> parts = parts_of(direction);
  torch::Tensor sum = torch::zeros_like(direction);
  double weight = 0;
  each_batch_([&](const Batch& batch) {
    const LossTerms terms = task_.loss(batch);
    check_seen(terms.sum, "loss");
    const auto first = grad({terms.sum}, parameters_, {}, true, /*create_graph=*/true, /*allow_unused=*/true);
    torch::Tensor slope = torch::zeros({}, direction.options());
    for (size_t i = 0; i < first.size(); ++i) {
      if (first[i].defined()) slope = slope + (first[i] * parts[i]).sum();
    }
    check_seen(slope, "gradient");
    sum += flat(grad({slope}, parameters_, {}, false, /*create_graph=*/false, /*allow_unused=*/true));
    weight += terms.weight.item<double>();
  });
  return sum / weight;
}

torch::Tensor LossSurface::weights() const {
  const torch::NoGradGuard no_gradients;
  return flat(parameters_);
}

torch::Tensor LossSurface::relative_direction(uint64_t seed) const {
  const torch::NoGradGuard no_gradients;
  std::vector<torch::Tensor> parts;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const torch::Tensor& parameter = parameters_[i];
    if (parameter.dim() < 2) {
      parts.push_back(torch::zeros_like(parameter));
      continue;
    }
    const torch::Tensor random = drawn(parameter, derive_key(seed, i)).flatten(1);
    const torch::Tensor scale =
        parameter.flatten(1).norm(2, 1, true) / random.norm(2, 1, true).clamp_min(1e-30);
    parts.push_back((random * scale).view_as(parameter));
  }
  return flat(parts);
}

double LossSurface::loss_along(const torch::Tensor& direction, double step) {
  const torch::NoGradGuard no_gradients;
  const std::vector<torch::Tensor> parts = parts_of(direction);
  std::vector<torch::Tensor> kept;
  for (const torch::Tensor& parameter : parameters_) kept.push_back(parameter.clone());
  const struct PutBack {
    std::vector<torch::Tensor>&parameters, &kept;
    ~PutBack() {
      for (size_t i = 0; i < kept.size(); ++i) parameters[i].copy_(kept[i]);
    }
  } put_back{parameters_, kept};
  for (size_t i = 0; i < parameters_.size(); ++i) parameters_[i].add_(parts[i], step);
  return loss();
}

std::vector<torch::Tensor> LossSurface::parts_of(const torch::Tensor& flat) const {
  std::vector<torch::Tensor> parts;
  int64_t first = 0;
  for (const torch::Tensor& parameter : parameters_) {
    parts.push_back(flat.narrow(0, first, parameter.numel()).view_as(parameter));
    first += parameter.numel();
  }
  return parts;
}

// An undefined part is zero.
torch::Tensor LossSurface::flat(const std::vector<torch::Tensor>& parts) const {
  std::vector<torch::Tensor> rows;
  for (size_t i = 0; i < parts.size(); ++i)
    rows.push_back(
        (parts[i].defined() ? parts[i] : torch::zeros_like(parameters_[i])).detach().reshape({-1}));
  return at::cat(rows);
}

Eigenvalue largest_eigenvalue(const std::function<torch::Tensor(const torch::Tensor&)>& multiply,
                              const torch::Tensor& like, LanczosOptions options) {
  const torch::NoGradGuard no_gradients;
  const int64_t most = std::min(options.most_steps, like.numel());
  const torch::Tensor basis = torch::empty({most, like.numel()}, like.options());
  torch::Tensor tridiagonal = torch::zeros({most, most}, torch::kFloat64);
  torch::Tensor next = drawn(like, options.seed);
  Eigenvalue found;
  double length = next.norm().item<double>();
  for (int64_t step = 0; step < most; ++step) {
    basis[step].copy_(next / length);
    next = multiply(basis[step]).reshape({-1});
    tridiagonal.index_put_({step, step}, product_of(next, basis[step]));
    const torch::Tensor so_far = basis.narrow(0, 0, step + 1);
    for (int pass = 0; pass < 2; ++pass) next = next - so_far.t().mv(so_far.mv(next));  // twice is enough
    length = next.norm().item<double>();
    found.products = step + 1;
    if (!std::isfinite(length)) {
      found.value = found.error = std::numeric_limits<double>::quiet_NaN();
      return found;
    }
    const auto [values, vectors] = at::linalg_eigh(tridiagonal.narrow(0, 0, step + 1).narrow(1, 0, step + 1));
    found.value = values[-1].item<double>();
    found.error = length * std::abs(vectors[step][step].item<double>());
    if (found.error <= options.tolerance * std::abs(found.value)) return found;
    if (step + 1 == most) return found;
    tridiagonal.index_put_({step, step + 1}, length);
    tridiagonal.index_put_({step + 1, step}, length);
  }
  return found;
}

}  // namespace autotrain
