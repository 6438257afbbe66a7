#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "autotrain/data.h"
#include "data/balance.h"
#include "recipe/keys.h"

namespace autotrain {

/// The keys of every data set that say how often an epoch sees a sample: `balance` and `weights`.
std::vector<KeySpec> balance_keys();

/// How samples are balanced as those keys say, and tells so; null: an epoch has each once.
/// @param ignored the class that counts for nothing: its samples are not drawn.
/// @throws Error(kBadRecipe) where the samples have no classes to be balanced by; Error(kBadData) naming file
/// and line or sample of weights that are none.
std::shared_ptr<const Balance> balance_of(const Parameters& parameters, const Dataset& data,
                                          std::optional<int64_t> ignored, uint64_t seed);

/// Targets [n] or [n, 1] as classes of samples, one label of each that is 0 or 1 among them; empty where they
/// are others. Negative ones are none.
std::vector<int64_t> classes_in(const torch::Tensor& targets);

/// Reads all samples of `data`, and returns their classes as `classes_in` does.
std::vector<int64_t> classes_by_reading(const Dataset& data);

}  // namespace autotrain
