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
/// are run through the model first: where channels last fail, or give another loss, the images stay
/// contiguous.
/// @param run what the caller does with batches: a failure of it, too, is the model's answer.
/// @throws Error(kBadRecipe) when channels last are asked for and cannot be had.
MemoryFormat resolve_memory_format(
    const Recipe& recipe, Precision precision, Device& device, Task& task, const Dataset& train,
    const std::function<void(const Batch&)>& run = [](const Batch&) {});

}  // namespace autotrain
