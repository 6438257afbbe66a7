#include "optim/preconditioned_norm.h"

#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/threshold.h>

#include <algorithm>
#include <limits>

#include "autotrain/error.h"

namespace autotrain {
namespace {

// Small enough for a cache to hold it, so that memory is read once, and large enough to keep a device busy.
int64_t slice_elements(const Optimizer& optimizer) {
  int64_t all = 0;
  for (const NamedTensor& parameter : optimizer.parameters()) all += parameter.tensor.numel();
  return std::min(all, int64_t{1} << (optimizer.device().is_cpu() ? 18 : 22));
}

}  // namespace

PreconditionedNorm::PreconditionedNorm(const Optimizer& optimizer)
    : optimizer_(optimizer), norm_(slice_elements(optimizer)) {
  check_invariant(optimizer.second_moment() && !optimizer.sharded(),
                  "a norm in an optimizer's metric needs all of its second moment");
  const auto options = torch::TensorOptions().dtype(torch::kFloat32).device(optimizer.device());
  slice_ = torch::empty({slice_elements(optimizer)}, options);
  slice_norm_ = torch::zeros({}, options);
  sum_ = torch::zeros({}, options.dtype(torch::kFloat64));
}

torch::Tensor PreconditionedNorm::squared() {
  const torch::NoGradGuard no_gradients;
  const Optimizer::SecondMoment& moment = *optimizer_.second_moment();
  // √(v ÷ c) + ε is (√v + ε√c) ÷ √c, with c = 1 − βᵗ.
  // Parameters that had fewer updates than others are few, and are taken for as old.
  const torch::Tensor updates = moment.updates.max();
  const torch::Tensor correction = 1 - at::pow(moment.beta, updates.to(torch::kFloat64));
  epsilon_ = (correction.sqrt() * moment.epsilon).to(torch::kFloat32);
  sum_.zero_();
  begin_slice();  // the one before may have ended for lack of memory
  for (size_t i = 0; i < optimizer_.parameters().size(); ++i) {
    const torch::Tensor& gradient = optimizer_.parameters()[i].tensor.grad();
    if (optimizer_.has_turn(i) && gradient.defined()) add(gradient, moment.values[i]);
  }
  finish_slice();
  return (sum_ * correction).masked_fill(updates == 0, std::numeric_limits<double>::quiet_NaN());
}

// Both in one order; copies of the rare ones that do not lie alike in memory.
void PreconditionedNorm::add(torch::Tensor gradient, torch::Tensor second_moment) {
  if (!gradient.is_non_overlapping_and_dense() || gradient.strides() != second_moment.strides()) {
    gradient = gradient.contiguous();
    second_moment = second_moment.contiguous();
  }
  for (int64_t first = 0; first < gradient.numel();) {
    const int64_t count = std::min(gradient.numel() - first, slice_.numel() - used_);
    const TensorPiece piece{.first = first, .count = count};
    gradients_.push_back(elements_of(gradient, piece));
    second_moments_.push_back(elements_of(second_moment, piece));
    quotients_.push_back(slice_.narrow(0, used_, count));
    first += count;
    used_ += count;
    if (used_ == slice_.numel()) finish_slice();
  }
}

// In place, so that the slice is all that it takes.
void PreconditionedNorm::finish_slice() {
  if (used_ == 0) return;
  torch::Tensor slice = slice_.narrow(0, 0, used_);
  at::_foreach_copy_(quotients_, second_moments_);
  // In the place of 0 infinity, of which the quotient is 0.
  at::threshold_(slice, 0, std::numeric_limits<double>::infinity()).sqrt_().add_(epsilon_).reciprocal_();
  at::_foreach_mul_(quotients_, gradients_);
  norm_(slice, slice, slice_norm_);
  sum_.add_(slice_norm_.to(torch::kFloat64).square());
  begin_slice();
}

void PreconditionedNorm::begin_slice() {
  for (auto* const pieces : {&gradients_, &second_moments_, &quotients_}) pieces->clear();
  used_ = 0;
}

}  // namespace autotrain
