#pragma once

#include <map>
#include <string>
#include <vector>

#include "recipe/keys.h"

namespace autotrain {

/// A key that two recipes give different values.
struct KeyDifference {
  std::string path;
  std::string before;  ///< as YAML
  std::string after;
  Decides decides = Decides::kUndeclared;
};

/// A key with its value as YAML.
struct KeyValue {
  std::string path;
  std::string value;
  Decides decides = Decides::kUndeclared;
};

/// Every key by its path; of the chosen rows too, defaults included.
std::vector<KeyValue> key_values(Recipe recipe, const Catalog& catalog);

/// The same without what they decide.
std::map<std::string, std::string> values_of(Recipe recipe, const Catalog& catalog);

std::vector<KeyDifference> differing_keys(const Recipe& before, const Recipe& after, const Catalog& catalog);

/// The keys of a recipe that do not have their default: of a row that it chooses, the row's own defaults.
std::vector<KeyDifference> changed_keys(const Recipe& recipe, const Catalog& catalog);

/// A row of a table as the recipe chooses it, with every key that it gives: "fashion_mnist split=test".
std::string words_of(const Choice& choice);

/// "optimizer.lr: 0.001 → 0.01", one line each.
std::string describe(const std::vector<KeyDifference>& differences);

}  // namespace autotrain
