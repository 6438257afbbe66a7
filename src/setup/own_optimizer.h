#pragma once

#include "autotrain/registry.h"
#include "optim/optimizer.h"

namespace autotrain {

/// The row of an optimizer of the program's own.
OptimizerRow row_of(const OwnOptimizer& own, ChoiceSpec spec);

}  // namespace autotrain
