#pragma once

#include <torch/types.h>

namespace autotrain {

/// What LibTorch's `_foreach_` operators lack: results in lists that are there already (their out-variants
/// allocate and copy). Lists of one length, with tensors of one shape and float32 in each place. One tensor
/// takes one kernel; several take two together on a GPU, and some each on a CPU. Every element is rounded
/// once, however it is computed.

/// out = a × b. `b` is a scalar float32 where they are.
void foreach_product(at::TensorList out, at::TensorList a, const torch::Tensor& b);
void foreach_product(at::TensorList out, at::TensorList a, at::TensorList b);

/// out = a ÷ b. `b` is a scalar float32 where they are.
void foreach_quotient(at::TensorList out, at::TensorList a, const torch::Tensor& b);

/// out = a − b, which do not lie in `out`.
void foreach_difference(at::TensorList out, at::TensorList a, at::TensorList b);

}  // namespace autotrain
