#pragma once

#include "autotrain/recipe.h"

namespace autotrain {

/// What single keys cannot say: that keys agree with each other.
/// @throws Error(kBadRecipe) naming the key.
void check_recipe(const Recipe& recipe);

}  // namespace autotrain
