#pragma once

#include "autotrain/recipe.h"
#include "checkpoint/checkpoint.h"

namespace autotrain {

/// Compares what is free on the disk of a run's folder with what its checkpoints will take there, and warns
/// where those that are kept and the one that is being written may not fit. Makes checkpoint.fallback.
/// @param checkpoint_bytes of one of them.
/// @throws Error(kInputOutput) where not even one fits, and the recipe has no checkpoint.fallback, or one
/// that cannot be written to.
void check_disk_space(const CheckpointRecipe& recipe, const CheckpointFolder& checkpoints,
                      int64_t checkpoint_bytes);

}  // namespace autotrain
