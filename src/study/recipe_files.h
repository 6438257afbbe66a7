#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "autotrain/recipe.h"
#include "base/json.h"

namespace autotrain {

/// What the files and folders are that decide a recipe's figures, so that a study that goes on can tell
/// whether they still are. What several recipes share is read once.
class RecipeFiles {
 public:
  /// By what names them: "data.train", "data.validation", "model", "model.weights", "loss". "" where a data
  /// set names none; of the others, those that name none are left out. Test data are not among them.
  /// @throws Error(kInputOutput) when one cannot be read.
  std::map<std::string, std::string> of(const Recipe& recipe);

 private:
  const std::string& of_choice(const Choice& choice);

  std::vector<std::pair<Choice, std::string>> known_;
  std::map<std::string, std::string> weights_;
};

/// A measurement of a recipe is defined by its values, and by its files where it names some.
nlohmann::ordered_json recipe_definition(const Recipe& recipe, std::map<std::string, std::string> files);

}  // namespace autotrain
