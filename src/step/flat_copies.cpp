#include "step/flat_copies.h"

#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/where.h>

#include "base/units.h"

namespace autotrain {
namespace {

constexpr int64_t kAligned = 16;  // elements: kernels read several at once

int64_t elements_for(const std::vector<torch::Tensor>& tensors) {
  int64_t elements = 0;
  for (const torch::Tensor& tensor : tensors) elements += round_up(tensor.numel(), kAligned);
  return elements;
}

std::vector<torch::Tensor> parts_of(const torch::Tensor& flat, const std::vector<torch::Tensor>& tensors) {
  std::vector<torch::Tensor> parts;
  int64_t offset = 0;
  for (const torch::Tensor& tensor : tensors) {
    parts.push_back(tensor.is_non_overlapping_and_dense()
                        ? flat.as_strided(tensor.sizes(), tensor.strides(), offset)
                        : flat.narrow(0, offset, tensor.numel()).view(tensor.sizes()));
    offset += round_up(tensor.numel(), kAligned);
  }
  return parts;
}

}  // namespace

FlatCopies::FlatCopies(std::vector<torch::Tensor> live, bool selects) : live_(std::move(live)) {
  const auto options = live_.at(0).options().requires_grad(false);
  copied_ = torch::empty({elements_for(live_)}, options);
  parts_of_copied_ = parts_of(copied_, live_);
  if (!selects) return;
  gathered_ = torch::empty_like(copied_);
  parts_of_gathered_ = parts_of(gathered_, live_);
}

void FlatCopies::save() {
  at::_foreach_copy_(parts_of_copied_, live_);
}

void FlatCopies::restore() {
  at::_foreach_copy_(live_, parts_of_copied_);
}

// A selection, since arithmetic would lose what is infinite or not a number.
void FlatCopies::restore_unless(const torch::Tensor& keep) {
  at::_foreach_copy_(parts_of_gathered_, live_);
  at::where_out(copied_, keep, gathered_, copied_);
  restore();
}

}  // namespace autotrain
