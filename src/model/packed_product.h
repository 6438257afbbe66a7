#pragma once

#include <torch/types.h>

#include <functional>
#include <optional>

namespace autotrain {

/// A linear layer for inference that has its weights in fewer bits: inputs [..., in] times their matrix, plus
/// its bias, [..., out].
using LinearProduct = std::function<torch::Tensor(const torch::Tensor& inputs)>;

// Made of a matrix [out, in] on a CPU, which is rounded once, and a bias [out], or an undefined one for none.

/// Multiplies in eight bits: weights with one scale for each output; inputs rounded at every call, with one
/// scale for all of them. Precondition: float32.
LinearProduct product_in_int8(const torch::Tensor& weight, const torch::Tensor& bias);

/// Reads weights of eight bits, and multiplies in the type of its inputs, which is that of the weight:
/// float32 or bfloat16.
LinearProduct product_of_int8(const torch::Tensor& weight, const torch::Tensor& bias);

/// The same with four bits and a scale for each group of inputs; nothing where LibTorch has no kernel for the
/// shape.
std::optional<LinearProduct> product_of_int4(const torch::Tensor& weight, const torch::Tensor& bias,
                                             int64_t group);

}  // namespace autotrain
