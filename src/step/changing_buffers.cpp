#include "step/changing_buffers.h"

#include <ATen/ops/_foreach_copy.h>

namespace autotrain {
namespace {

constexpr size_t kSmallBytes = 64 << 10;

}  // namespace

void ChangingBuffers::save() {
  const torch::NoGradGuard no_gradients;
  if (!saved_) {
    for (const auto& item : module_.named_buffers()) {
      live_.push_back(item.value());
      copies_.push_back(torch::empty_like(item.value()));
    }
    saved_ = true;
  }
  if (!live_.empty()) at::_foreach_copy_(copies_, live_);
}

void ChangingBuffers::restore() {
  const torch::NoGradGuard no_gradients;
  if (!live_.empty()) at::_foreach_copy_(live_, copies_);
}

void ChangingBuffers::forget_constants() {
  if (constants_forgotten_ || !saved_) return;
  constants_forgotten_ = true;
  std::vector<torch::Tensor> live, copies;
  for (size_t i = 0; i < live_.size(); ++i) {
    // By value: batch normalisation writes its statistics without moving their version counter.
    if (live_[i].nbytes() > kSmallBytes && live_[i].equal(copies_[i])) continue;
    live.push_back(live_[i]);
    copies.push_back(copies_[i]);
  }
  live_ = std::move(live);
  copies_ = std::move(copies);
}

}  // namespace autotrain
