#pragma once

#include <optional>
#include <string>

#include "autotrain/recipe.h"
#include "state/branch.h"

namespace autotrain {

/// A recipe of a comparison.
struct NamedRecipe {
  std::string label;  ///< unique in its comparison
  Recipe recipe;

  /// Its runs begin there instead of at initial weights, the seed decides what comes from there on, and they
  /// end after that many samples. Begun anew where they are interrupted.
  std::optional<BranchPoint> from = {};
};

}  // namespace autotrain
