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

/// Whether the validation data of a recipe are others than those that a run was evaluated on, though their
/// own keys and names stayed: files hold something else, or a key of the training data that they follow
/// divides them otherwise. Their figures do not compare.
bool validates_on_others(const Identity& before, const Identity& now, const Recipe& recipe);

/// Whether the file of the model's first weights is another, which a run that goes on does not read.
bool has_other_initial_weights(const Identity& before, const Identity& now);

/// What the model's file held, and that of its first weights, as fingerprint_of_weights tells it; "": there
/// was none.
std::string model_file_in(const Identity& identity);
std::string initial_weights_in(const Identity& identity);

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
