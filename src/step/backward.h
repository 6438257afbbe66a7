#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "autotrain/named_tensor.h"

namespace autotrain {

/// Goes backward from what a task computed. Gradients that come sparse, as those of embeddings may, are dense
/// afterwards: everything that is done with them takes dense ones.
/// @param whose names the task's method in errors. @param gradient of the shape of `outputs`.
/// @throws Error(kBrokenContract) where the graph cannot be gone through by a fault of the task's.
void go_backward(const char* whose, const torch::Tensor& outputs, const torch::Tensor& gradient,
                 const std::vector<NamedTensor>& parameters, bool keep_graph = false);

/// Rethrows the exception under way: as Error(kBrokenContract) of `whose` where it tells of such a fault,
/// else as it is.
[[noreturn]] void rethrow_from_backward(const std::string& whose);

}  // namespace autotrain
