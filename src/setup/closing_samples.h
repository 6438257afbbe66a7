#pragma once

#include "autotrain/data.h"
#include "autotrain/recipe.h"

namespace autotrain {

/// Has the training data close as data.augment.close_mosaic says, where it does; where bad samples are
/// skipped, at the end of that epoch.
/// @throws Error(kBadRecipe) where there is nothing to close, or nobody knows how many samples the run has.
void close_samples(const Recipe& recipe, Dataset& train);

}  // namespace autotrain
