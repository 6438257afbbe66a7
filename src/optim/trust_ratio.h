#pragma once

#include <torch/types.h>

#include <vector>

namespace autotrain {

/// L2 norms of whole tensors, which allocate nothing on a CPU and have the same bits for any number of
/// threads there: sums of fixed pieces are added in their order, in float64.
class TensorNorm {
 public:
  /// @param largest elements that a tensor has at most.
  explicit TensorNorm(int64_t largest);

  /// out = ‖tensor‖₂.
  /// @param tensor  float32.
  /// @param scratch like the tensor and dense; lost where the tensor is not dense.
  /// @param out     scalar float32 on the tensor's device.
  void operator()(const torch::Tensor& tensor, torch::Tensor scratch, torch::Tensor out);

 private:
  std::vector<double> sums_;  // of pieces
};

/// How far a layer may go, as a part of its weights' norm (You et al. 2017, 2020). Scalars float32 on a
/// device.
class TrustRatio {
 public:
  explicit TrustRatio(torch::Device device);

  torch::Tensor weights, update;  ///< norms, to be filled in

  /// weights ÷ update, or 1 where either is 0.
  const torch::Tensor& ratio();

 private:
  torch::Tensor zero_, one_, ratio_, some_weights_, some_update_;
};

}  // namespace autotrain
