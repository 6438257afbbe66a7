#pragma once

#include <torch/types.h>

#include <vector>

namespace autotrain {

/// L2 norms of whole tensors, which allocate nothing on a CPU and have the same bits for any number of
/// threads there: sums of fixed pieces are added in their order, in float64. On a GPU they borrow some KiB.
class TensorNorms {
 public:
  /// @param largest elements that a tensor has at most.
  explicit TensorNorms(int64_t largest);

  /// out = ‖tensor‖₂.
  /// @param tensor  float32.
  /// @param scratch like the tensor and dense; lost where the tensor is not dense.
  /// @param out     scalar float32 on the tensor's device.
  void operator()(const torch::Tensor& tensor, torch::Tensor scratch, torch::Tensor out);

  /// The same for each tensor of a list, on a GPU by a few kernels for all. @param out [tensors] float32.
  void operator()(at::TensorList tensors, at::TensorList scratch, torch::Tensor out);

 private:
  std::vector<double> sums_;  // of pieces
};

/// How far layers may go, as a part of their weights' norm (You et al. 2017, 2020).
class TrustRatios {
 public:
  /// Allocates. @param most layers at once.
  TrustRatios(torch::Device device, size_t most);

  /// The next ratios are of so many layers.
  void begin(size_t layers) { layers_ = static_cast<int64_t>(layers); }

  /// [layers] float32 on the device: norms, to be filled in.
  torch::Tensor weights() const { return weights_.narrow(0, 0, layers_); }
  torch::Tensor updates() const { return updates_.narrow(0, 0, layers_); }

  /// Of each layer a scalar float32: weights ÷ updates, or 1 where either is 0.
  at::TensorList ratios();

 private:
  int64_t layers_ = 0;
  torch::Tensor weights_, updates_, ratios_, some_weights_, some_updates_;  // [most]
  torch::Tensor zero_, one_;
  std::vector<torch::Tensor> each_;  // scalars of ratios_
};

}  // namespace autotrain
