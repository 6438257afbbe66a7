#pragma once

#include "autotrain/error.h"
#include "autotrain/task.h"

namespace autotrain {

/// The task's loss of a micro-batch. @throws Error(kBadRecipe) where LibTorch refuses to normalise single
/// values, in the place of its own error.
LossTerms loss_terms(Task& task, const Batch& batch);

/// Whether an error is that one.
bool is_of_single_values(const Error& error);

}  // namespace autotrain
