#include "optim/unfused.h"

#include <ATen/ops/mul.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/sub.h>

#include <algorithm>

namespace autotrain {

UnfusedOptimizer::UnfusedOptimizer(Trained trained) : Optimizer(std::move(trained)) {
  zero_ = constant(0);
  rate_ = constant(0);
  decay_ = constant(0);
  rate_times_decay_ = constant(0);
  skipped_ = torch::zeros({}, torch::TensorOptions().dtype(torch::kBool).device(device()));
  std::vector<torch::Tensor> parts;
  for (size_t i = 0; i < members(); ++i) {
    parts.push_back(own_part(parameter_of(i).tensor.detach(), i));
    largest_part_ = std::max(largest_part_, parts.back().numel());
  }
  const auto options = torch::TensorOptions().dtype(torch::kFloat32).device(device());
  const torch::Tensor shared = torch::empty({largest_part_}, options);
  for (const torch::Tensor& part : parts) {
    scratch_.push_back(part.is_non_overlapping_and_dense()
                           ? shared.as_strided(part.sizes(), part.strides(), 0)
                           : shared.narrow(0, 0, part.numel()).view(part.sizes()));
  }
}

torch::Tensor UnfusedOptimizer::constant(double value) const {
  return torch::full({}, value, torch::TensorOptions().dtype(torch::kFloat32).device(device()));
}

void UnfusedOptimizer::before_groups(const Update& update) {
  at::ne_out(skipped_, update.found_inf, zero_);
  // Only on a CPU is it known without waiting.
  may_be_skipped_ = !update.found_inf.is_cpu() || update.found_inf.item<float>() != 0;
  before_parts(update);
}

void UnfusedOptimizer::set_rate(const Group& group, const Update& update) {
  if (update.lr_on_device.defined())
    rate_.copy_(update.lr_on_device);
  else
    rate_.fill_(update.lr);
  decays_ = group.weight_decay != 0;
  decay_.fill_(group.weight_decay);
  at::mul_out(rate_times_decay_, rate_, decay_);
}

void UnfusedOptimizer::apply_group(const Group& group, const Lists& lists, const Update& update) {
  set_rate(group, update);
  before_group();
  for (size_t i = 0; i < lists.members.size(); ++i) {
    const size_t member = lists.members[i];
    Part part{lists.parameters[i].detach(), lists.gradients[i], scratch_[member], member};
    if (update.grad_scale) part.gradient.div_(*update.grad_scale);
    apply_part(part);
  }
}

// What is subtracted from a tensor that stays is +0, which changes no bit, also not of −0.
void UnfusedOptimizer::subtract(const torch::Tensor& from, const torch::Tensor& change) const {
  if (may_be_skipped_) change.masked_fill_(skipped_, 0);
  from.sub_(change);
}

void UnfusedOptimizer::move(const torch::Tensor& mean, const torch::Tensor& value, const torch::Tensor& share,
                            const torch::Tensor& scratch) const {
  torch::Tensor change = scratch;
  at::sub_out(change, mean, value).mul_(share);
  subtract(mean, change);
}

void UnfusedOptimizer::decay_parameter(const Part& part) const {
  if (!decays_) return;
  torch::Tensor change = part.scratch;
  subtract(part.parameter, at::mul_out(change, part.parameter, rate_times_decay_));
}

UpdateClock::UpdateClock(torch::Tensor step)
    : step_(std::move(step)), one_(torch::ones_like(step_)), count_(scalar(0)) {}

void UpdateClock::tick(const torch::Tensor& found_inf) {
  step_.add_(one_).sub_(found_inf);
  count_.copy_(step_);
}

void UpdateClock::power(const torch::Tensor& base, torch::Tensor out) const {
  at::pow_out(out, base, count_);
}

torch::Tensor UpdateClock::scalar(double value) const {
  return torch::full({}, value, step_.options().dtype(torch::kFloat64));
}

}  // namespace autotrain
