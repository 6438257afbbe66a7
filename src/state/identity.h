#pragma once

#include <map>
#include <string>

#include "autotrain/plan.h"
#include "autotrain/recipe.h"
#include "device/device.h"
#include "plan/workbench.h"

namespace autotrain {

/// What the bits of a run depend on beside its recipe: names of facts and their values.
using Identity = std::map<std::string, std::string>;

/// @param own_buffers each rank changes buffers of its own (batch normalisation), so that their number
/// counts.
Identity identity_of(const Device& device, const BatchPlan& plan, const torch::nn::Module& module);

/// What all ranks of a run must have in common: their program, machine and data, and every key of the recipe.
Identity facts_of_rank(const Recipe& recipe, const Workbench& bench);

/// @param trained what the run depended on that trained the weights.
/// @throws Error(kBadData) when the module is made from another file than the run's was.
void check_model_file(const Identity& trained, const torch::nn::Module& module);

/// Whether a continuation under `now` of a run under `before` gives the same bits: "exact", or "equal to
/// rounding, because …".
std::string exactness(const Identity& before, const Identity& now);

}  // namespace autotrain
