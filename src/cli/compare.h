#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "autotrain/error.h"
#include "cli/common_options.h"

namespace autotrain {

/// The options that `autotrain compare` and `autotrain sweep --mode converge` share.
struct ComparisonOptions {
  int64_t seeds = 3;
  std::string target = {};  ///< "accuracy=0.9"
  std::string figure = {};
  bool training_set = false;
  int64_t ranks = 1;
  bool halving = false;
  bool sharpness = false;

  void declare(CLI::App& app);
};

/// A request to train one recipe at the points of a grid.
struct ConvergenceRequest {
  std::filesystem::path config;
  std::vector<std::string> overrides;
  std::vector<std::string> vary;   ///< "batch.effective=64,256", an axis each
  std::vector<std::string> rules;  ///< values of batch.lr_rule
  std::optional<int64_t> sample;   ///< points of the grid; unset: all
};

/// Trains one recipe at the points of a grid and prints what differs.
ExitCode run_converge(const ConvergenceRequest& what, const ComparisonOptions& how, const PrintOptions& print,
                      const std::filesystem::path& output);

}  // namespace autotrain
