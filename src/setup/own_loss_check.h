#pragma once

#include "plan/workbench.h"

namespace autotrain {

/// Holds the loss that a model computes itself, of a few samples in evaluation mode, against those of their
/// parts: cut into micro-batches, it must be what it was. The shortest and the longest sample are among them.
/// Not checked where there are too few samples or too little memory, or the model does not compute in
/// float32.
/// @throws Error(kBadRecipe) when it is neither the mean over the samples nor their sum, or not what the
/// model is said to give.
void check_own_loss(Workbench& bench);

}  // namespace autotrain
