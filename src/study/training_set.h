#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "autotrain/plan.h"
#include "autotrain/recipe.h"

namespace autotrain {

/// The weights of a checkpoint that are evaluated: averages where there are some.
std::filesystem::path evaluated_weights(const std::filesystem::path& checkpoint);

/// The figures of a finished run's last weights (of their averages if the recipe averages) on the data that
/// it was trained on: all of it, in evaluation mode, without augmentation.
/// @throws Error as loading and evaluating do; Error(kInterrupted) after a signal.
std::map<std::string, double> evaluate_on_training_set(const Recipe& recipe, const BatchPlan& plan,
                                                       const std::filesystem::path& run, int64_t update);

}  // namespace autotrain
