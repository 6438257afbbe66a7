#pragma once

#include "plan/workbench.h"

namespace autotrain {

/// Tries the model on the smallest inputs of data.augment.multi_scale, before a run comes to them.
/// @throws Error(kBadRecipe) where there are none smaller than the data's, or the model does not take them.
void try_smallest_inputs(Workbench& bench);

}  // namespace autotrain
