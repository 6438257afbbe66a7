#pragma once

#include <torch/types.h>

#include <vector>

#include "optim/optimizer.h"
#include "optim/trust_ratio.h"

namespace autotrain {

/// The norm of gradients in the metric of an optimizer that divides them by the root of their second moment,
/// in which its steps are of one length (Qiao et al. 2021, arXiv:2008.12260, section 3.1). Factors of groups
/// on the learning rate do not enter it, nor do LAMB's trust ratios.
///
/// It goes through slices of elements in memory of its own: 1 MiB on a CPU and 16 MiB on a GPU, or as much as
/// one moment takes where that is less. Of a gradient that does not lie in memory as its second moment does
/// it makes copies, too. On a CPU its bits do not depend on the number of threads.
class PreconditionedNorm {
 public:
  /// Allocates. @param optimizer has a second moment and is not sharded; must outlive this object.
  explicit PreconditionedNorm(const Optimizer& optimizer);

  /// Σ (g ÷ (√v̂ + ε))², of the gradients and the second moment as they are now. An element whose second
  /// moment is 0 has had no gradient yet, and no metric: it does not count, nor does a parameter whose turn
  /// it is not. Does not wait for the device.
  /// @return scalar float64 on the device; NaN before the optimizer's first update.
  torch::Tensor squared();

 private:
  void add(torch::Tensor gradient, torch::Tensor second_moment);
  void finish_slice();
  void begin_slice();

  const Optimizer& optimizer_;
  torch::Tensor slice_;  // [elements] float32
  TensorNorms norm_;
  torch::Tensor slice_norm_;                                           // scalar float32
  torch::Tensor epsilon_;                                              // likewise: ε√(1 − βᵗ)
  torch::Tensor sum_;                                                  // scalar float64: of the slices so far
  std::vector<torch::Tensor> gradients_, second_moments_, quotients_;  // pieces of the slice under way
  int64_t used_ = 0;                                                   // elements of it
};

}  // namespace autotrain
