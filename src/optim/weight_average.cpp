#include "optim/weight_average.h"

#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/sub.h>

#include <cmath>
#include <unordered_set>
#include <utility>

#include "optim/optimizer.h"

namespace autotrain {
namespace {

// Whether kernels over lists take the two.
bool lie_alike(const torch::Tensor& average, const torch::Tensor& weight) {
  return average.scalar_type() == torch::kFloat32 && weight.scalar_type() == torch::kFloat32 &&
         average.is_non_overlapping_and_dense() && average.strides() == weight.strides();
}

constexpr size_t kLargeFrom = size_t{1} << 20;  // bytes

}  // namespace

std::vector<NamedTensor> averaged_parts(const torch::nn::Module& module) {
  std::vector<NamedTensor> parts = trainable_parameters(module);
  std::unordered_set<const void*> seen;
  for (const auto& item : module.named_buffers()) {
    const torch::Tensor& buffer = item.value();
    if (!buffer.is_floating_point() || buffer.numel() == 0 || buffer.nbytes() >= kLargeFrom) continue;
    if (!seen.insert(buffer.unsafeGetTensorImpl()).second || !at::isfinite(buffer).all().item<bool>())
      continue;
    parts.push_back({item.key(), buffer});
  }
  return parts;
}

WeightAverage::WeightAverage(std::vector<NamedTensor> parameters, double half_life_samples)
    : parameters_(std::move(parameters)), half_life_samples_(half_life_samples) {
  for (const NamedTensor& parameter : parameters_) averages_.push_back(parameter.tensor.detach().clone());
  if (!active()) return;
  full_step_ = torch::zeros({}, torch::TensorOptions().dtype(torch::kFloat32).device(averages_[0].device()));
  minus_step_ = torch::zeros_like(full_step_);
}

void WeightAverage::set_update_samples(int64_t samples) {
  if (!active()) return;
  keep_ = std::exp2(-static_cast<double>(samples) / half_life_samples_);
  full_step_.fill_(1 - keep_);
}

// (1 − d)·(1 − skipped), by one kernel.
torch::Tensor WeightAverage::step_for(const torch::Tensor& skipped) const {
  return active() ? at::sub(full_step_, skipped, /*alpha=*/1 - keep_) : torch::Tensor();
}

void WeightAverage::update(const torch::Tensor& step) {
  waits_ ? void(waiting_ = step) : move(step);
}

void WeightAverage::catch_up() {
  if (waiting_.defined()) move(std::exchange(waiting_, torch::Tensor()));
}

void WeightAverage::move(const torch::Tensor& step) {
  const torch::NoGradGuard no_gradients;
  std::vector<torch::Tensor> averages, weights;
  for (size_t i = 0; i < averages_.size(); ++i) {
    const torch::Tensor& weight = parameters_[i].tensor;
    if (step.is_cpu() || !lie_alike(averages_[i], weight)) {
      averages_[i].lerp_(weight, step.to(weight.scalar_type()));
    } else {
      averages.push_back(averages_[i]);
      weights.push_back(weight.detach());
    }
  }
  if (averages.empty()) return;
  lerp_together(averages, weights, at::neg_out(minus_step_, step));
}

void WeightAverage::restart() {
  if (!active()) return;
  const torch::NoGradGuard no_gradients;
  std::vector<torch::Tensor> weights;
  for (const NamedTensor& parameter : parameters_) weights.push_back(parameter.tensor.detach());
  at::_foreach_copy_(averages_, weights);
}

void WeightAverage::swap() {
  for (size_t i = 0; i < averages_.size(); ++i) {
    const torch::Tensor live = parameters_[i].tensor.detach();
    parameters_[i].tensor.set_data(averages_[i]);
    averages_[i] = live;
  }
}

std::vector<NamedTensor> WeightAverage::state() const {
  std::vector<NamedTensor> all;
  for (size_t i = 0; i < averages_.size(); ++i) all.push_back({parameters_[i].name, averages_[i]});
  return all;
}

// A step of SGD with a decay of −1, for which the weights are the gradients: p −= rate × (g − p). There is a
// kernel that interpolates over lists, but it takes its step from the host.
void lerp_together(at::TensorList averages, at::TensorList weights, const torch::Tensor& minus_step) {
  at::_fused_sgd_(averages, weights, /*momentum_buffer_list=*/{}, /*weight_decay=*/-1, /*momentum=*/0,
                  /*lr=*/minus_step, /*dampening=*/0, /*nesterov=*/false, /*maximize=*/false,
                  /*is_first_step=*/false);
}

}  // namespace autotrain
