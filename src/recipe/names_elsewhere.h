#pragma once

#include <string>
#include <vector>

namespace autotrain {

/// The one of `known` that `word` was likely meant to be, in whatever letters, with or without blanks and
/// lines, or by its name in PyTorch: "AdamW", "MSELoss", "OneCycleLR". "" when none is near.
std::string near_name(const std::string& word, const std::vector<std::string>& known);

/// Where the place of a key is that other tools have ("num_train_epochs"): a path in recipes, or a sentence;
/// "" when nobody is known to have it.
/// @param key in whatever letters, with or without underscores.
std::string place_of_key_elsewhere(const std::string& key);

}  // namespace autotrain
