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

}  // namespace autotrain
