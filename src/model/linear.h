#pragma once

#include <torch/nn/modules/linear.h>

#include <memory>
#include <utility>

#include "model/adapter.h"

namespace autotrain {

/// torch::nn::Linear that can also multiply by weights of fewer bits, which are rounded once. For inference:
/// `weight` itself is dropped then, so that its memory is free.
class LinearImpl final : public torch::nn::LinearImpl {
 public:
  using torch::nn::LinearImpl::LinearImpl;

  torch::Tensor forward(const torch::Tensor& inputs);

  /// The matrix that `forward` multiplies by: `weight`, with its adapter applied where it has one. [out, in]
  torch::Tensor weight_in_use() const { return adapter_ ? adapter_->effective() : weight; }

  /// @param adapter of `weight`; null: none.
  void adapt(std::shared_ptr<const Adapter> adapter) { adapter_ = std::move(adapter); }

  /// From now on `forward` multiplies in eight bits: weights with one scale for each output; inputs rounded
  /// at every call, with one scale for all of them. Precondition: float32 weights on a CPU, and no adapter.
  void quantize();

  /// From now on `forward` reads weights of eight bits, and multiplies in the type of its inputs.
  /// Precondition: as of `quantize`, or bfloat16.
  void keep_int8();

  /// The same with four bits and a scale for each group of inputs. @return false, with nothing changed, where
  /// LibTorch has no kernel for this shape.
  bool keep_int4(int64_t group);

 private:
  struct Packed;
  void keep(Packed packed);

  std::shared_ptr<Packed> packed_;  // null: as torch's
  std::shared_ptr<const Adapter> adapter_;
};

TORCH_MODULE(Linear);

/// Quantizes every such layer of a model, those of experts among them. @return how many there are.
int64_t quantize_linear_layers(torch::nn::Module& module);

}  // namespace autotrain
