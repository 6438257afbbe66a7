#include "optim/unfused.h"

#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/sub.h>

#include <algorithm>

#include "autotrain/error.h"
#include "base/text.h"
#include "base/units.h"
#include "optim/foreach.h"

namespace autotrain {
namespace {

// On a GPU a kernel over so much takes longer than its launch. On a CPU one tensor after the other is faster:
// it stays in the caches.
constexpr int64_t kTogetherOnGpu = 16 * kMiB / int64_t{sizeof(float)};

constexpr int64_t kAligned = 32;  // elements: kernels read several at once

}  // namespace

UnfusedOptimizer::UnfusedOptimizer(Trained trained) : Optimizer(std::move(trained)) {
  check_are_float32();
  zero_ = constant(0);
  rate_ = constant(0);
  decay_ = constant(0);
  rate_times_decay_ = constant(0);
  skipped_ = torch::zeros({}, torch::TensorOptions().dtype(torch::kBool).device(device()));
  together_ = updated_together().value_or(device().is_cpu() ? 0 : kTogetherOnGpu);
  int64_t all = 0;
  for (size_t i = 0; i < members(); ++i) {
    const int64_t elements = own_part(parameter_of(i).tensor.detach(), i).numel();
    largest_part_ = std::max(largest_part_, elements);
    all += round_up(elements, kAligned);
  }
  const auto options = torch::TensorOptions().dtype(torch::kFloat32).device(device());
  scratch_ = torch::empty({std::max(largest_part_, std::min(together_, all))}, options);
}

void UnfusedOptimizer::check_are_float32() const {
  for (const NamedTensor& each : parameters()) {
    if (each.tensor.scalar_type() == torch::kFloat32) continue;
    throw Error(ExitCode::kBadRecipe, "optimizer.name",
                cat("computes in float32, and ", each.name, " is of type ", each.tensor.dtype().name()),
                "make the module float32: module.to(torch::kFloat32); or take sgd, adam or adamw");
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
  for (size_t first = 0; first < lists.members.size();) {
    const Parts parts = parts_from(lists, first);
    if (update.grad_scale) at::_foreach_div_(parts.gradients, *update.grad_scale);
    apply_parts(parts);
    first += parts.members.size();
  }
}

// Members from the `first` on, one at least.
UnfusedOptimizer::Parts UnfusedOptimizer::parts_from(const Lists& lists, size_t first) const {
  Parts parts;
  int64_t used = 0;
  for (size_t i = first; i < lists.members.size(); ++i) {
    const torch::Tensor parameter = lists.parameters[i].detach();
    const int64_t offset = round_up(used, kAligned), end = offset + parameter.numel();
    if (i > first && end > together_) break;
    parts.members.push_back(lists.members[i]);
    parts.parameters.push_back(parameter);
    parts.gradients.push_back(lists.gradients[i]);
    parts.scratch.push_back(scratch_for(parameter, offset));
    used = end;
  }
  parts.all_scratch = scratch_.narrow(0, 0, used);
  return parts;
}

// It lies in memory as the part does.
torch::Tensor UnfusedOptimizer::scratch_for(const torch::Tensor& part, int64_t offset) const {
  return part.is_non_overlapping_and_dense() ? scratch_.as_strided(part.sizes(), part.strides(), offset)
                                             : scratch_.narrow(0, offset, part.numel()).view(part.sizes());
}

std::vector<torch::Tensor> UnfusedOptimizer::of(const Parts& parts, const std::vector<torch::Tensor>& state) {
  std::vector<torch::Tensor> own;
  own.reserve(parts.members.size());
  for (const size_t member : parts.members) own.push_back(state[member]);
  return own;
}

// What is subtracted from a tensor that stays is +0, which changes no bit, also not of −0.
void UnfusedOptimizer::subtract_scratch(at::TensorList from, const Parts& parts) const {
  if (may_be_skipped_) parts.all_scratch.masked_fill_(skipped_, 0);
  at::_foreach_sub_(from, parts.scratch);
}

void UnfusedOptimizer::move(at::TensorList means, at::TensorList values, const torch::Tensor& share,
                            const Parts& parts) const {
  foreach_difference(parts.scratch, means, values);
  at::_foreach_mul_(parts.scratch, share);
  subtract_scratch(means, parts);
}

// (value − mean) × −share has the bits of (mean − value) × share, but for the sign of a 0, which no mean of
// squares can show: it is never −0.
void UnfusedOptimizer::move_to_squares(at::TensorList means, const torch::Tensor& minus_share,
                                       const Parts& parts) const {
  foreach_product(parts.scratch, parts.gradients, parts.gradients);
  at::_foreach_sub_(parts.scratch, means);
  at::_foreach_mul_(parts.scratch, minus_share);
  subtract_scratch(means, parts);
}

void UnfusedOptimizer::decay_parameters(const Parts& parts) const {
  if (!decays_) return;
  foreach_product(parts.scratch, parts.parameters, rate_times_decay_);
  subtract_scratch(parts.parameters, parts);
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
