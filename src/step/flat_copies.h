#pragma once

#include <torch/types.h>

#include <vector>

namespace autotrain {

/// Copies of many small tensors of one type and device, in one memory, so that few kernels make them and put
/// them back. They are put back bit for bit, whatever numbers they are.
class FlatCopies {
 public:
  /// Allocates; copies nothing yet.
  /// @param selects whether `restore_unless` is asked for, which takes as much memory again.
  FlatCopies(std::vector<torch::Tensor> live, bool selects);

  void save();     ///< the tensors as they are now
  void restore();  ///< the tensors are as they were at the last `save`

  /// The same where `keep` (scalar bool where the tensors are) is false, by three kernels for some dozens of
  /// tensors; allocates nothing and does not wait for the device.
  void restore_unless(const torch::Tensor& keep);

 private:
  std::vector<torch::Tensor> live_;
  torch::Tensor copied_, gathered_;                                 // [elements]
  std::vector<torch::Tensor> parts_of_copied_, parts_of_gathered_;  // laid out as those that live
};

}  // namespace autotrain
