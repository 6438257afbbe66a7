#pragma once

#include <string>

#include "autotrain/plan.h"
#include "autotrain/recipe.h"
#include "plan/workbench.h"

namespace autotrain {

/// What keeps a checkpoint's plan from being executed here as it was there: "the device is …"; "" where
/// nothing does. @param stored of another number of ranks, perhaps.
std::string why_plan_anew(const Recipe& recipe, const Workbench& bench, const BatchPlan& stored);

}  // namespace autotrain
