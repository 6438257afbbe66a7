#pragma once

#include <map>
#include <string>
#include <vector>

#include "autotrain/plan.h"
#include "autotrain/recipe.h"
#include "device/device.h"
#include "plan/workbench.h"

namespace autotrain {

/// What the bits of a run depend on beside its recipe: names of facts and their values.
using Identity = std::map<std::string, std::string>;

Identity identity_of(const Workbench& bench, const BatchPlan& plan);

/// What is told of data, or a model's file, that are others than those that a run began with, a sentence
/// each: files whose names stayed have other bytes, samples or weights.
std::vector<std::string> changes_of_data(const Identity& before, const Identity& now);

/// Whether the file of the model's first weights is another, which a run that goes on does not read.
bool has_other_initial_weights(const Identity& before, const Identity& now);

/// What all ranks of a run must have in common: their program, machine and data, and every key of the recipe.
Identity facts_of_rank(const Recipe& recipe, const Workbench& bench);

/// @param trained what the run depended on that trained the weights.
/// Warns where the module is a program's own, which was built again since.
/// @throws Error(kBadData) when the module is made from another file than the run's was.
void check_model_file(const Identity& trained, const torch::nn::Module& module);

/// Whether a continuation under `now` of a run under `before` gives the same bits: "exact", or "equal to
/// rounding, because …", or "with other data than it was begun with".
std::string exactness(const Identity& before, const Identity& now);

}  // namespace autotrain
