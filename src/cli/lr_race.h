#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/common_options.h"
#include "compare/compare.h"
#include "lr/race.h"

namespace autotrain {

/// Lets learning rates pass.
CLI::Validator learning_rate();

/// --race and what goes with it
struct RaceOptions {
  bool race = false;
  std::vector<double> rates;  ///< empty: around what the range test says
  int64_t seeds = 3;
  std::string figure;  ///< "": what the recipe monitors

  void declare(CLI::App& app);

  /// @throws Error(kUsage) about those that mean nothing beside the others.
  void check(const CLI::App& app) const;
};

/// The comparison that a race is: the recipe at each of the rates, by halving. Its folder is left to set.
/// @throws Error as loading the recipe does.
CompareOptions comparison_of(const RecipeOptions& recipe, const RaceOptions& race,
                             const std::vector<double>& rates);

/// What that comparison showed.
RateRace race_of(const Comparison& found, const RateGrid& grid, const Recipe& recipe);

}  // namespace autotrain
