#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "autotrain/recipe.h"
#include "plan/peak_trace.h"

namespace autotrain {

/// Runs an update as the plan cuts it and looks when it holds the most memory, and of what.
PeakTrace peak_of(const Recipe& recipe, const BatchPlan& plan);

/// When it is, what was there before, and the largest tensors with what made them and what they are kept for.
std::string peak_text(const PeakTrace& peak);

nlohmann::ordered_json peak_to_json(const PeakTrace& peak);

}  // namespace autotrain
