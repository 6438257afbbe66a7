#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "autotrain/recipe.h"

namespace autotrain {

/// What a learning rate that follows evaluations remembers of them.
struct PlateauState {
  double factor = 1;                ///< on the learning rate
  std::string figure = {};          ///< what `best` is of
  std::optional<double> best = {};  ///< unset: nothing was measured yet
  int64_t waited = 0;               ///< evaluations in a row without improvement
  int64_t cooling = 0;              ///< evaluations that are still not counted
  bool operator==(const PlateauState&) const = default;
};

/// Lowers the learning rate when a figure of the evaluations no longer improves, as
/// torch.optim.lr_scheduler.ReduceLROnPlateau does with threshold_mode="abs" and a patience of one less.
struct Plateau {
  std::string figure;
  double factor = 0.1;
  int64_t patience = 10;
  double threshold = 0;
  int64_t cooldown = 0;
  double least = 0;

  /// Takes note of an evaluation. A value that is not finite is no improvement.
  void follow(double value, bool lower_is_better, PlateauState& state) const;
};

/// Nothing unless the recipe's schedule is `plateau`.
std::optional<Plateau> plateau_of(const Recipe& recipe);

}  // namespace autotrain
