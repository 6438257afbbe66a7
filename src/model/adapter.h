#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "autotrain/named_tensor.h"

namespace autotrain {

/// A low-rank change of one weight (LoRA, Hu et al. 2021, section 4.1), which a layer computes with in the
/// weight's place. Whatever the layer does with the weight, autograd takes the gradient of what is in its
/// place on to A and B: dB = scale · dW · Aᵀ and dA = scale · Bᵀ · dW.
struct Adapter {
  torch::Tensor weight;  ///< [out, in], the model's own; stays as it is
  torch::Tensor a;       ///< [rank, in], float32
  torch::Tensor b;       ///< [out, rank], float32
  double scale = 1;      ///< alpha ÷ rank

  /// weight + scale · b · a, in the types that they have, whatever autocast says. [out, in]
  torch::Tensor effective() const;
};

/// The names of the two, for a weight of that name: "fc.lora_A.weight" for "fc.weight", and
/// "attention.in_proj_weight.lora_A.weight" where the weight has a name of its own.
std::string name_of_a(const std::string& weight);
std::string name_of_b(const std::string& weight);

/// Whether a tensor's name is one of those.
bool is_adapter_tensor(const std::string& name);

/// Tensors of a checkpoint without adapters, what those change added to the weights: to the bits of
/// `effective` on the same machine. @throws Error(kBadData) naming an adapter whose other half or whose
/// weight is not there.
std::vector<NamedTensor> merged(const std::vector<NamedTensor>& tensors, double scale);

}  // namespace autotrain
