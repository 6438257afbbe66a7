#include "step/flat_copies.h"

#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/where.h>

#include "base/flat_layout.h"

namespace autotrain {
namespace {

FlatLayout layout_of(const std::vector<torch::Tensor>& tensors) {
  std::vector<NamedTensor> unnamed;
  for (const torch::Tensor& tensor : tensors) unnamed.push_back({"", tensor});
  return FlatLayout(std::move(unnamed));
}

std::vector<torch::Tensor> parts_of(const torch::Tensor& flat, const FlatLayout& layout) {
  std::vector<torch::Tensor> parts;
  for (size_t i = 0; i < layout.tensors().size(); ++i) parts.push_back(layout.view(flat, i));
  return parts;
}

}  // namespace

FlatCopies::FlatCopies(std::vector<torch::Tensor> live, bool selects) : live_(std::move(live)) {
  const FlatLayout layout = layout_of(live_);
  copied_ = torch::empty({layout.elements()}, live_.at(0).options().requires_grad(false));
  parts_of_copied_ = parts_of(copied_, layout);
  if (!selects) return;
  gathered_ = torch::empty_like(copied_);
  parts_of_gathered_ = parts_of(gathered_, layout);
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
