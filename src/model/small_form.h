#pragma once

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace autotrain {

/// What a tensor is kept as until it is needed again: less memory, from which it is made to the bit, lying in
/// memory as it lay.
class SmallForm {
 public:
  /// A bit for each element. Nothing where the tensor is on a device, has gaps, or has a third value; of
  /// truths there is none.
  static std::optional<SmallForm> of_two_values(const torch::Tensor& tensor);

  /// Whole numbers of a smaller type, on any device. Nothing where none is smaller, or the tensor has gaps.
  /// @param tensor int64. @param bound all are in [0, bound).
  static std::optional<SmallForm> of_indices(const torch::Tensor& tensor, int64_t bound);

  torch::Tensor restored() const;
  int64_t nbytes() const { return static_cast<int64_t>(kept_.nbytes()); }

 private:
  explicit SmallForm(const torch::Tensor& of);

  std::vector<int64_t> sizes_;
  std::vector<int64_t> strides_;
  torch::TensorOptions options_;
  torch::Tensor kept_ = {};
  bool bits_ = false;  // whether `kept_` has a bit for each element: of `low_` or `high_`
  uint64_t low_ = 0, high_ = 0;
};

}  // namespace autotrain
