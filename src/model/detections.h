#pragma once

#include <cstdint>
#include <vector>

namespace autotrain {

/// A box that a model says is there. Edges in pixels.
struct Detection {
  float left = 0, top = 0, right = 0, bottom = 0;
  float score = 0;  ///< in [0, 1]
  int32_t category = 0;
  bool operator==(const Detection&) const = default;
};

struct SuppressionOptions {
  float overlap = 0.7f;  ///< of a better box of the same class from above which on a box is dropped
  int64_t most = 100;    ///< boxes of an image
};

/// Non-maximum suppression within each class: from the best score down, every box is kept that no kept one of
/// its class overlaps too much. Of equal scores the earlier box comes first. @return the best of those kept,
/// in falling order of their scores.
std::vector<Detection> suppress(const std::vector<Detection>& boxes, const SuppressionOptions& options);

}  // namespace autotrain
