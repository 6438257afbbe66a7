#pragma once

#include <string>
#include <vector>

#include "autotrain/plan.h"
#include "setup/assembly.h"

namespace autotrain {

/// Every resolved number of a run as {what, value, where it comes from}. @param hosts of its ranks, in their
/// order.
std::vector<std::vector<std::string>> start_table(const Recipe& recipe, const BatchPlan& plan,
                                                  const Workbench& bench,
                                                  const std::vector<std::string>& hosts);

/// Where the plan's numbers come from: asked for in the recipe, found by the search, or a default.
/// @param device of the plan: a recipe may have a budget for each.
std::map<std::string, Origin> plan_origins(const Recipe& recipe, const std::string& device);

/// "10.0 GiB of the device, outside the budget", of what others held when the plan was made; "" for next to
/// nothing.
std::string others_in_words(const BatchPlan& plan);

}  // namespace autotrain
