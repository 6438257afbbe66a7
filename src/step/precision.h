#pragma once

#include <c10/core/ScalarType.h>

#include <optional>
#include <vector>

#include "autotrain/recipe.h"

namespace autotrain {

class Device;

/// What a precision means, all in one place. Resolved precisions: never kAuto, unless it says so.

/// The precision that `asked` means on a device: kAuto is bf16 where the device multiplies it natively, else
/// fp32 on a CPU and fp16 on a GPU.
Precision resolve_precision(Precision asked, const Device& device);

/// @throws Error(kBadRecipe) for one that is for inference only; kAuto passes.
void check_trains(Precision precision);

/// The type of the operands of products. Of int8, that of everything that is not quantized.
torch::ScalarType product_type(Precision precision);

/// Whether products take half as many bytes as weights, which stay float32: autocast converts them.
bool is_half(Precision precision);

/// Whether gradients need a loss scale, for they would underflow.
bool scales_loss(Precision precision);

/// The half precision that promises to be faster than `precision` on the device; nothing where none does.
std::optional<Precision> faster_precision(Precision precision, const Device& device);

/// The precisions that are worth measuring side by side for training. On a CPU fp16 is not among them: it is
/// emulated there, and some forty times slower.
std::vector<Precision> precisions_to_compare(bool on_gpu);

}  // namespace autotrain
