#include "study/recipe_files.h"

#include <algorithm>

#include "autotrain/error.h"
#include "data/fingerprint.h"
#include "recipe/compare.h"
#include "state/catalog.h"
#include "state/data_files.h"

namespace autotrain {

const std::string& RecipeFiles::of_choice(const Choice& choice) {
  const auto found = std::ranges::find(known_, choice, &std::pair<Choice, std::string>::first);
  if (found != known_.end()) return found->second;
  return known_.emplace_back(choice, fingerprint_of_data(choice)).second;
}

std::map<std::string, std::string> RecipeFiles::of(const Recipe& recipe) {
  std::map<std::string, std::string> files = {{"data.train", of_choice(recipe.data.train)}};
  if (recipe.data.validation) files["data.validation"] = of_choice(*recipe.data.validation);
  if (const std::string& model = of_choice(recipe.model); !model.empty()) files["model"] = model;
  if (const std::string& loss = of_choice(recipe.loss); !loss.empty()) files["loss"] = loss;
  if (recipe.weights.file) {
    std::string& weights = weights_[*recipe.weights.file];
    try {
      if (weights.empty()) weights = fingerprint_of_weights(*recipe.weights.file);
      files["model.weights"] = weights;
    } catch (const Error&) {}  // the run that needs them says so
  }
  return files;
}

nlohmann::ordered_json recipe_definition(const Recipe& recipe, std::map<std::string, std::string> files) {
  nlohmann::ordered_json definition = {{"recipe", values_of(recipe, catalog())}};
  std::erase_if(files, [](const auto& file) { return file.second.empty(); });
  if (!files.empty()) definition["files"] = files;
  return definition;
}

}  // namespace autotrain
