#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "compare/compare.h"

namespace autotrain {

struct ConvergeOptions {
  std::filesystem::path config;
  std::vector<std::string> overrides = {};
  std::vector<std::string> batches;     ///< values of batch.effective
  std::vector<std::string> rules = {};  ///< of batch.lr_rule; empty: the recipe's own (or linear) and none
};

/// The comparison of a recipe over batch sizes: every size with every learning-rate rule, labelled
/// "E64-linear". Rules are tested against each other at each size, and the generalisation gap is measured.
/// Where the runs go, seeds and target are left to set.
/// @throws Error(kBadRecipe) when the recipe stops by updates, which are other samples at each size; Error as
/// loading does.
CompareOptions convergence(const ConvergeOptions& options);

}  // namespace autotrain
