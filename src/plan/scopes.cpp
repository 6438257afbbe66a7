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

ModeScope::ModeScope(torch::nn::Module& module) : module_(module), training_(module.is_training()) {
  for (const auto& part : module.modules(/*include_self=*/false))
    modes_.emplace_back(part, part->is_training());
}

// `train` goes down to the parts, which come after what they are in.
ModeScope::~ModeScope() {
  if (module_.is_training() != training_) module_.train(training_);
  for (const auto& [part, training] : modes_) {
    if (part->is_training() != training) part->train(training);
  }
}

void set_training(torch::nn::Module& module) {
  if (!module.is_training()) module.train();
}

}  // namespace autotrain
