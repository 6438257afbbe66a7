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
  bool learned = true;  ///< false: it says how the run is executed, not what is learned
};

/// Every key by its path, with its value as YAML; of the chosen rows too, defaults included.
std::map<std::string, std::string> values_of(Recipe recipe, const Catalog& catalog);

std::vector<KeyDifference> differing_keys(const Recipe& before, const Recipe& after, const Catalog& catalog);

/// The keys of a recipe that do not have their default: of a row that it chooses, the row's own defaults.
std::vector<KeyDifference> changed_keys(const Recipe& recipe, const Catalog& catalog);

/// "optimizer.lr: 0.001 → 0.01", one line each.
std::string describe(const std::vector<KeyDifference>& differences);

}  // namespace autotrain
