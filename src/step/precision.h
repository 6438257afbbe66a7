#pragma once

#include <c10/core/ScalarType.h>

#include <optional>
#include <vector>

#include "autotrain/recipe.h"

namespace torch::nn {
class Module;
}

namespace autotrain {

class Device;

/// What a precision means, all in one place. Resolved precisions: never kAuto, unless it says so.

/// The precision that `asked` means on a device: kAuto is bf16 where the device multiplies it natively, else
/// fp32 on a CPU and fp16 on a GPU; or another where `model` cannot be computed in that one, fp32 first. tf32
/// is never chosen: whoever wants it asks for it.
/// @throws Error(kBadRecipe) when tf32 is asked of a device that has none.
Precision resolve_precision(Precision asked, const Device& device, const torch::nn::Module& model);

/// @throws Error(kBadRecipe) for one that is for inference only; kAuto passes.
void check_trains(Precision precision);

/// Lets products of float32 tensors round their operands to TF32, or forbids it, from now on and in the whole
/// process: LibTorch's own default allows it in convolutions.
void set_products(Precision precision, Device& device);

/// Sizes of a batch that kernels like best are multiples of it.
int64_t preferred_multiple(Precision precision, const Device& device);

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
