#include "step/changing_buffers.h"

#include <ATen/ops/_foreach_copy.h>

namespace autotrain {

void ChangingBuffers::save() {
  const torch::NoGradGuard no_gradients;
  if (!saved_) {
    std::vector<torch::Tensor> live, copies;
    for (const auto& item : module_.named_buffers()) {
      live.push_back(item.value());
      copies.push_back(torch::empty_like(item.value()));
    }
    live_ = std::move(live);
    copies_ = std::move(copies);
    saved_ = true;
  }
  if (!live_.empty()) at::_foreach_copy_(copies_, live_);
}

void ChangingBuffers::restore() {
  const torch::NoGradGuard no_gradients;
  if (!live_.empty()) at::_foreach_copy_(live_, copies_);
}

void ChangingBuffers::restore_unless(const torch::Tensor& keep) {
  if (live_.empty()) return;
  if (keep.is_cpu()) {
    if (!keep.item<bool>()) restore();
    return;
  }
  const torch::NoGradGuard no_gradients;
  for (size_t i = 0; i < live_.size(); ++i) {
    at::where_out(copies_[i], keep, live_[i], copies_[i]);  // in place: nothing is allocated
    live_[i].copy_(copies_[i]);
  }
}

}  // namespace autotrain
