#pragma once

#include <c10/util/ArrayRef.h>
#include <torch/types.h>

namespace autotrain {

/// Rows `indices` of a contiguous CPU tensor [N, …] as a new tensor [n, …]: one copy a row, no
/// intra-operation threads, so that a loader thread does not compete with the step.
torch::Tensor gather_rows(const torch::Tensor& rows, c10::ArrayRef<int64_t> indices);

}  // namespace autotrain
