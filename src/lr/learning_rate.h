#pragma once

#include <nlohmann/json.hpp>

#include "autotrain/recipe.h"
#include "lr/range_test.h"
#include "lr/suggestion.h"
#include "study/trained_run.h"

namespace autotrain {

/// Everything that decides what a range test of the recipe's first weights finds.
nlohmann::ordered_json definition_of(const Recipe& recipe, const RangeTestOptions& options);

/// Plans as a run of the recipe would, and tests from its first weights.
/// @throws Error as planning and training do.
LearningRateTest test_learning_rate(const Recipe& recipe, bool fresh_plan, const RangeTestOptions& options);

/// Tests from a checkpoint, on what the run would train on next.
LearningRateTest test_learning_rate(const TrainedRun& run, RangeTestOptions options);

}  // namespace autotrain
