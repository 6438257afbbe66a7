#pragma once

#include <torch/types.h>

namespace autotrain {

/// Images [n, C, H, W] of the same sizes and values, stored with all channels of a pixel together; copied
/// unless they lie like that already. Tensors of other dimensions as they are.
torch::Tensor channels_last(const torch::Tensor& images);

}  // namespace autotrain
