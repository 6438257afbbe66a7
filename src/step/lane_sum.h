#pragma once

#include <torch/types.h>

#include <vector>

namespace autotrain {

/// Sums the lanes of a window one after the other, in the order of a LaneTree and to its bits, in buffers
/// that stay: one more than the tree is deep.
class LaneSum {
 public:
  /// Allocates. @param lanes ≥ 1.
  LaneSum(int64_t lanes, at::IntArrayRef sizes, const torch::TensorOptions& options);

  /// Begins with the first lane.
  void open();

  /// Which of the `buffers` the lane under way adds to; zero when it began. After the last lane it is the
  /// first one, which holds the sum.
  size_t current() const { return current_; }
  const std::vector<torch::Tensor>& buffers() const { return buffers_; }

  /// Ends the lane under way.
  void next();

  /// Whether all lanes have ended.
  bool whole() const { return static_cast<int64_t>(done_) == lanes_; }

 private:
  std::vector<torch::Tensor> buffers_;
  int64_t lanes_;
  uint64_t done_ = 0;  // lanes; each 1 in its binary form is a subtree that waits for its neighbour
  size_t current_ = 0;
};

}  // namespace autotrain
