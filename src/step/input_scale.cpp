#include "step/input_scale.h"

#include <ATen/ops/_upsample_bilinear2d_aa.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace autotrain {

int64_t InputScale::most_steps(int64_t shorter_side) const {
  constexpr double kRounding = 1e-9;  // 0.4 × 160 is two steps
  const double pixels = share * static_cast<double>(shorter_side) + kRounding;
  return std::clamp<int64_t>(static_cast<int64_t>(pixels) / kStep, 0, (shorter_side - 1) / kStep);
}

int64_t InputScale::steps(int64_t shorter_side, int64_t window) const {
  const uint64_t key = derive_key(seed, static_cast<uint64_t>(RandomUse::kInputScale), window);
  return Random(key).below(most_steps(shorter_side) + 1);
}

Batch shrunk(Batch batch, int64_t steps) {
  const torch::NoGradGuard no_gradients;
  const int64_t height = batch.inputs.size(2), width = batch.inputs.size(3),
                shorter = std::min(height, width);
  if (steps == 0) {
    batch.inputs = batch.inputs.clone();
    return batch;
  }
  const double factor =
      static_cast<double>(shorter - steps * InputScale::kStep) / static_cast<double>(shorter);
  const auto side = [factor](int64_t pixels) {
    return static_cast<int64_t>(std::llround(factor * static_cast<double>(pixels)));
  };
  batch.inputs =
      at::_upsample_bilinear2d_aa(batch.inputs, {side(height), side(width)}, /*align_corners=*/false);
  return batch;
}

}  // namespace autotrain
