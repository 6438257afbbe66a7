#include "step/lane_sum.h"

#include <bit>

namespace autotrain {

LaneSum::LaneSum(int64_t lanes, at::IntArrayRef sizes, const torch::TensorOptions& options) : lanes_(lanes) {
  const auto depth = std::bit_width(static_cast<uint64_t>(lanes));
  for (uint64_t i = 0; i < depth; ++i) buffers_.push_back(torch::zeros(sizes, options.requires_grad(false)));
}

void LaneSum::open() {
  done_ = 0;
  current_ = 0;
  buffers_[0].zero_();
}

void LaneSum::next() {
  const torch::NoGradGuard no_gradients;
  for (int merges = std::countr_one(done_); merges > 0; --merges, --current_)
    buffers_[current_ - 1].add_(buffers_[current_]);
  ++done_;
  if (whole()) {
    for (; current_ > 0; --current_) buffers_[current_ - 1].add_(buffers_[current_]);
    return;
  }
  current_ = static_cast<size_t>(std::popcount(done_));
  buffers_[current_].zero_();
}

}  // namespace autotrain
