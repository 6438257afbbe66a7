#pragma once

#include <string>
#include <vector>

#include "compare/comparison.h"
#include "compare/named_recipe.h"

namespace autotrain {

/// The keys in which recipes differ, names and seeds aside.
std::vector<DifferingKey> differing_keys(const std::vector<NamedRecipe>& recipes);

/// Why the recipes cannot be compared fairly; one sentence each.
std::vector<std::string> unfair_because(const std::vector<DifferingKey>& keys);

/// Whether the losses of updates are the same quantity.
bool losses_are_alike(const std::vector<DifferingKey>& keys);

/// Why the figures of two recipes are different quantities, by the keys in which the two differ: "are
/// evaluated on different data (data.validation.file)"; "": they are not.
std::string why_not_comparable(const ComparisonTerms& terms, size_t a, size_t b);

}  // namespace autotrain
