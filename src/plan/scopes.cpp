#include "plan/scopes.h"

namespace autotrain {

ScalerScope::ScalerScope(const GradScaler& scaler) : state_(scaler.state()) {
  for (const NamedTensor& value : state_) copies_.push_back(value.tensor.clone());
}

ScalerScope::~ScalerScope() {
  const torch::NoGradGuard no_gradients;
  for (size_t i = 0; i < state_.size(); ++i) state_[i].tensor.copy_(copies_[i]);
}

BufferScope::BufferScope(torch::nn::Module& module, std::optional<std::set<std::string>>& changing)
    : changing_(changing) {
  for (const auto& item : module.named_buffers()) {
    if (changing_ && !changing_->contains(item.key())) continue;
    const torch::Tensor& live = item.value();
    saved_.push_back({item.key(), live, live.detach().clone()});
  }
}

BufferScope::~BufferScope() {
  const torch::NoGradGuard no_gradients;
  std::set<std::string> changed;
  for (Saved& saved : saved_) {
    // By value: batch normalisation writes its statistics without moving their version counter.
    if (saved.live.equal(saved.copy)) continue;
    changed.insert(saved.name);
    saved.live.copy_(saved.copy);
  }
  if (!changing_) changing_ = std::move(changed);
}

}  // namespace autotrain
