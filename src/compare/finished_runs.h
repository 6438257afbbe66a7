#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "compare/compare.h"
#include "compare/comparison.h"

namespace autotrain {

struct FinishedRunsOptions {
  std::vector<std::filesystem::path> folders;  ///< of runs, or of folders with runs in them
  std::string figure = "";                     ///< as in CompareOptions
  std::optional<Target> target = {};
  bool paired = false;
  std::string command = {};  ///< that asked for it, for its report
  std::optional<Margin> margin = {};
};

/// Compares runs that are there, whoever made them: those whose recipes learn alike, but for the seed, are
/// runs of one recipe. What decides whether a pair may be compared is what decides it of runs that are made
/// for a comparison.
/// @throws Error(kBadData) when two that name the same data read other bytes, as far as their checkpoints
/// say; Error(kMissingFile) when a folder holds no run, Error(kUsage) when two runs have the same recipe and
/// seed or the figure is not measured, Error(kBadData) for files that cannot be read.
Comparison compare_finished_runs(const FinishedRunsOptions& options);

}  // namespace autotrain
