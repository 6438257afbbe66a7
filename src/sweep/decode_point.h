#pragma once

#include <nlohmann/json.hpp>

#include "autotrain/recipe.h"

namespace autotrain {

/// Each measures what the recipe names, for a process of its own. @throws Error(kDoesNotFit) when memory does
/// not suffice, Error(kBadRecipe) when the model cannot decode so.

/// What does not depend on batch and context: the model's bytes, and the machine.
nlohmann::ordered_json measure_decoder(const Recipe& recipe);

/// The time of a step, of the prefill before it, and how fast as many bytes can be read.
nlohmann::ordered_json measure_decode_point(const Recipe& recipe, int64_t batch, int64_t context);

/// Static against continuous batches: `requests` of lengths that the recipe's seed draws.
nlohmann::ordered_json measure_batching(const Recipe& recipe, int64_t slots, int64_t context,
                                        int64_t requests);

}  // namespace autotrain
