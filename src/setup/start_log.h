#pragma once

#include "autotrain/plan.h"
#include "autotrain/recipe.h"
#include "plan/workbench.h"

namespace autotrain {

/// Logs, when training begins, what the plan is, what it makes of the learning rate and of groups of
/// parameters, and a warning where batch normalisation does not see the whole batch.
void log_start(const Recipe& recipe, const BatchPlan& plan, const Workbench& bench);

}  // namespace autotrain
