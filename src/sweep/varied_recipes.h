#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "autotrain/recipe.h"

namespace autotrain {

/// One of the recipes that a sweep measures side by side.
struct VariedRecipe {
  std::string value = {};  ///< of the key that is varied
  Recipe recipe;
  std::map<std::string, std::string> files = {};  ///< as RecipeFiles has them
};

/// The variants that `sweep.vary` names; without it there is one, whose value is "".
struct VariedRecipes {
  std::string key = {};
  std::vector<VariedRecipe> all = {};
};

/// @param recipe what `config` with `overrides` is.
/// @throws Error(kBadRecipe) where a key of the sweep itself is varied, or a value does not go;
/// Error(kInputOutput) when a file that a recipe names cannot be read.
VariedRecipes varied_recipes(const Recipe& recipe, const std::filesystem::path& config,
                             const std::vector<std::string>& overrides);

}  // namespace autotrain
