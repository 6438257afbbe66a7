#pragma once

#include <torch/types.h>

#include <vector>

namespace autotrain {

/// The tensors whose gradient a backward pass of `result` would add to, each once.
std::vector<torch::Tensor> graph_leaves(const torch::Tensor& result);

}  // namespace autotrain
