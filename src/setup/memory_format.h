#pragma once

#include <functional>

#include "autotrain/data.h"
#include "autotrain/recipe.h"
#include "autotrain/task.h"
#include "device/device.h"

namespace autotrain {

/// `execution.memory_format` resolved, for a task whose module is on the device. The rule of `auto` asks what
/// runs and where, never a clock: channels last for a module with convolutions (weights of four dimensions)
/// over images, on a CPU or in half precision, unless it has an operator that is slow in it. A few samples
/// are run through the model first: where channels last fail, or give another loss or other gradients, the
/// images stay contiguous.
/// @param learn what the caller does with batches, and the norm of the gradients that come of it (0: none
/// do): a failure of it, too, is the model's answer.
/// @throws Error(kBadRecipe) when channels last are asked for and cannot be had.
MemoryFormat resolve_memory_format(
    const Recipe& recipe, Precision precision, Device& device, Task& task, const Dataset& train,
    const std::function<double(const Batch&)>& learn = [](const Batch&) { return 0.0; });

}  // namespace autotrain
