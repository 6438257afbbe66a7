#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compare/compare.h"

namespace autotrain {

/// Tuning before a comparison: recipes that are compared at one learning rate, say, are compared at a rate
/// that suits one of them better than another. Each is given its own best value, found with the same budget.
struct TuneOptions {
  std::string key;                       ///< of every recipe, the same: "optimizer.lr"
  std::vector<std::string> values = {};  ///< that each tries; empty: `runs` of them around its own
  int64_t runs = 5;                      ///< odd, 3 to 9: its own value times 3^(−2), …, 3^2
  int64_t most_further = 2;              ///< runs beyond the best where that is at the edge, in threes
};

/// Trains each recipe of the study with each value, in a comparison of its own with one seed that the study
/// has not, and gives each the value with which the compared figure was best at the end. A run that failed is
/// never the best. Kept results make the same choice again.
/// @param study changed: its recipes have their values, and its terms tell of it.
/// @param compare makes the comparison that it is given, as `compare` does.
/// @throws Error(kUsage) for a key that is no number above 0 and no values are given, Error(kBadRecipe) for a
/// value that a recipe cannot have, Error(kDiverged) where all runs of a recipe failed.
void tune(CompareOptions& study, const TuneOptions& options,
          const std::function<Comparison(const CompareOptions&)>& compare);

}  // namespace autotrain
