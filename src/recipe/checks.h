#pragma once

#include "recipe/keys.h"

namespace autotrain {

/// Checks a whole recipe, whoever built it: every key's value, every choice's name and parameters, and that
/// keys agree with each other.
/// @throws Error(kBadRecipe) naming the key, its value and what is allowed.
void check_recipe(const Recipe& recipe, const Catalog& catalog);

}  // namespace autotrain
