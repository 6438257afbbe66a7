#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "compare/compare.h"
#include "recipe/axes.h"

namespace autotrain {

struct ConvergeOptions {
  std::filesystem::path config;
  std::vector<std::string> overrides = {};
  std::vector<Axis> axes;  ///< at least one, no key twice; the grid has every combination of their values

  /// Values of batch.lr_rule, a further axis. Empty: with batch.effective as the only axis the recipe's own
  /// rule (or linear) and none; else there is no such axis.
  std::vector<std::string> rules = {};

  /// So many points of the grid, drawn from it without replacement by the recipe's `seed`: the same for the
  /// same seed, and among those of a larger sample. Unset, or not fewer than there are: all.
  std::optional<int64_t> sample = {};
};

/// The comparison of one recipe over a grid of values of its keys, labelled "E64-linear" or
/// "E64-lars-lr=0.1". Points are tested against each other that differ on one axis, on which one of them has
/// the first value; and the generalisation gap is measured. Where the runs go, seeds and target are left to
/// set.
/// @throws Error(kBadRecipe) when batch.effective is an axis and the recipe stops by updates, which are other
/// samples at each size; Error(kUsage) when a key is an axis twice; Error as loading does.
CompareOptions convergence(const ConvergeOptions& options);

}  // namespace autotrain
