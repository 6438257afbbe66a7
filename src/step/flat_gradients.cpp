#include "step/flat_gradients.h"

#include "base/units.h"

namespace autotrain {
namespace {

constexpr int64_t kAlignment = 16;  // elements: kernels read whole cache lines

}  // namespace

FlatGradients::FlatGradients(const std::vector<NamedTensor>& parameters) {
  int64_t elements = 0;
  for (const NamedTensor& each : parameters) elements += round_up(each.tensor.numel(), kAlignment);
  const auto options = parameters.empty() ? torch::TensorOptions() : parameters[0].tensor.options();
  flat_ = torch::zeros({elements}, options.requires_grad(false));
  reached_.assign(parameters.size(), 0);
  parts_.reserve(parameters.size());
  int64_t at = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const torch::Tensor& parameter = parameters[i].tensor;
    // Strides of the parameter, for kernels that walk both at once; not of a part of something larger.
    const bool dense = parameter.is_non_overlapping_and_dense();
    const torch::Tensor gradient = dense ? flat_.as_strided(parameter.sizes(), parameter.strides(), at)
                                         : flat_.narrow(0, at, parameter.numel()).view(parameter.sizes());
    const unsigned hook = parameter.register_hook([this, i](const torch::Tensor& gradient_of_pass) {
      if (gradient_of_pass.defined()) reached_[i] = 1;
    });
    parts_.push_back({parameter, gradient, hook});
    at += round_up(parameter.numel(), kAlignment);
  }
}

FlatGradients::~FlatGradients() {
  for (Part& part : parts_) {
    part.parameter.remove_hook(part.hook);
    part.parameter.mutable_grad().reset();
  }
}

void FlatGradients::open() {
  const torch::NoGradGuard no_gradients;
  flat_.zero_();
  for (size_t i = 0; i < parts_.size(); ++i) {
    parts_[i].parameter.mutable_grad() = parts_[i].gradient;
    reached_[i] = 0;
  }
}

void FlatGradients::leave_reached() {
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (reached_[i] == 0) parts_[i].parameter.mutable_grad().reset();
  }
}

}  // namespace autotrain
