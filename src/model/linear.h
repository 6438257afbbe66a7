#pragma once

#include <torch/nn/modules/linear.h>

#include <memory>
#include <utility>

#include "model/adapter.h"

namespace autotrain {

/// torch::nn::Linear that can also multiply in eight bits: weights rounded once, one scale for each output;
/// inputs at every call, one scale for all of them.
class LinearImpl final : public torch::nn::LinearImpl {
 public:
  using torch::nn::LinearImpl::LinearImpl;

  torch::Tensor forward(const torch::Tensor& inputs);

  /// The matrix that `forward` multiplies by: `weight`, with its adapter applied where it has one. [out, in]
  torch::Tensor weight_in_use() const { return adapter_ ? adapter_->effective() : weight; }

  /// @param adapter of `weight`; null: none.
  void adapt(std::shared_ptr<const Adapter> adapter) { adapter_ = std::move(adapter); }

  /// From now on `forward` uses eight-bit weights, made from what `weight` holds now; `weight` itself is
  /// dropped, so that its memory is free. For inference. Precondition: float32 weights on a CPU, and no
  /// adapter.
  void quantize();

 private:
  struct Packed;
  std::shared_ptr<Packed> packed_;  // null: as torch's
  std::shared_ptr<const Adapter> adapter_;
};

TORCH_MODULE(Linear);

/// Quantizes every such layer of a model. @return how many there are.
int64_t quantize_linear_layers(torch::nn::Module& module);

}  // namespace autotrain
