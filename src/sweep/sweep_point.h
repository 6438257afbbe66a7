#pragma once

#include <nlohmann/json.hpp>

#include "autotrain/recipe.h"

namespace autotrain {

/// Measures one batch size of what the recipe names, in `recipe.sweep.mode`, on a batch that is on the device
/// already. For a process of its own. The result: docs/formats.md, the points of sweep.json.
/// @throws Error(kDoesNotFit) when memory does not suffice, Error(kBadRecipe) when the model cannot take such
/// a batch.
nlohmann::ordered_json measure_point(const Recipe& recipe, int64_t batch);

/// Measures what does not depend on the batch: the device's roofline, the model's operators at one sample
/// (two in training), how fast its weights can be read, how long the smallest operator takes and, where the
/// recipe names trained weights and validation data, how good the model is in this precision.
nlohmann::ordered_json measure_variant(const Recipe& recipe);

}  // namespace autotrain
