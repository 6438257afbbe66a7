#include "plan/scopes.h"

#include <utility>

namespace autotrain {

TensorScope::TensorScope(std::vector<NamedTensor> tensors, std::optional<torch::Device> copies_on)
    : tensors_(std::move(tensors)) {
  const torch::NoGradGuard no_gradients;
  for (const NamedTensor& each : tensors_) {
    const torch::Device where = copies_on.value_or(each.tensor.device());
    copies_.push_back(
        each.tensor.to(where, each.tensor.scalar_type(), /*non_blocking=*/false, /*copy=*/true));
  }
}

TensorScope::~TensorScope() {
  put_back([&] {
    const torch::NoGradGuard no_gradients;
    for (size_t i = 0; i < tensors_.size(); ++i) tensors_[i].tensor.copy_(copies_[i]);
  });
}

}  // namespace autotrain
