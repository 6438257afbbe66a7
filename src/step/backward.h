#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "autotrain/named_tensor.h"

namespace autotrain {

/// Whose computation it is that is gone backward from.
struct BackwardOf {
  std::string method;     ///< the task's, for errors
  bool own_code = false;  ///< of the program's own: `runs_own_code`
};

/// Goes backward from what a task computed. Gradients that come sparse, as those of embeddings may, are dense
/// afterwards: everything that is done with them takes dense ones. None shares its memory with another
/// tensor, unless it did before.
/// @param gradient of the shape of `outputs`.
/// @throws as `rethrow_from_backward`.
void go_backward(const BackwardOf& of, const torch::Tensor& outputs, const torch::Tensor& gradient,
                 const std::vector<NamedTensor>& parameters, bool keep_graph = false);

/// Rethrows the exception under way: as Error(kBrokenContract) where the graph cannot be gone through by a
/// fault of the task's, or where a program's own code (a hook, an autograd function, a block that is computed
/// again) threw, as `rethrow_from_user`; else as it is.
[[noreturn]] void rethrow_from_backward(const BackwardOf& of);

}  // namespace autotrain
