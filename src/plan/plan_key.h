#pragma once

#include <string>

#include "plan/planner.h"

namespace autotrain {

/// Everything that decides what fits, as text: plans that were kept are found by it.
std::string plan_key(const PlanRequest& request, Workbench& bench, const SearchLimits& limits);

}  // namespace autotrain
