#include "sweep/varied_recipes.h"

#include "autotrain/error.h"
#include "recipe/axes.h"
#include "setup/data_places.h"
#include "study/recipe_files.h"

namespace autotrain {

VariedRecipes varied_recipes(const Recipe& recipe, const std::filesystem::path& config,
                             const std::vector<std::string>& overrides) {
  const Axis axis = recipe.sweep.vary ? *parse_axis(*recipe.sweep.vary) : Axis{"", {""}};
  for (const std::string& key : axis.keys()) {
    if (!key.starts_with("sweep.")) continue;
    throw Error(ExitCode::kBadRecipe, "sweep.vary", key + " is part of the sweep itself",
                "vary a key of the model or of execution; batches are sweep.batches");
  }
  VariedRecipes variants{.key = axis.key};
  RecipeFiles files;
  for (const std::string& value : axis.values) {
    std::vector<std::string> settings = overrides;
    for (const std::string& key : axis.keys()) {
      if (!key.empty()) settings.push_back(key + "=" + value);
    }
    const Recipe one = load_recipe(config, settings);
    variants.all.push_back({.value = value, .recipe = one, .files = files.of(one)});
  }
  return variants;
}

}  // namespace autotrain
