#pragma once

#include <torch/nn/module.h>

#include <filesystem>
#include <string>
#include <vector>

#include "autotrain/plan.h"
#include "autotrain/recipe.h"
#include "state/snapshot.h"

namespace autotrain {

/// Which weights of a run are wanted.
struct RunChoice {
  std::filesystem::path folder;
  std::string checkpoint = "newest";  ///< or "best", or the number of an update
  std::filesystem::path weights =
      {};  ///< a file whose weights stand in the place of the checkpoint's; empty: none
};

/// A run that was trained, and one of its checkpoints.
struct TrainedRun {
  std::filesystem::path folder = {};
  Recipe recipe = {};  ///< with what was overridden
  BatchPlan plan = {};
  int64_t update = 0;                     ///< of the checkpoint
  std::filesystem::path checkpoint = {};  ///< its folder
  std::filesystem::path weights = {};  ///< a file with other ones for the same model; empty: the checkpoint's

  /// The recipe with the precision and memory format that the run resolved to, for samples that are read
  /// once.
  Recipe as_planned() const;
};

/// @param overrides of the run's recipe: "a.b=value".
/// @throws Error(kMissingFile) when the folder holds no run or not that checkpoint, or there is no such file
/// of weights, Error(kUsage) when `checkpoint` is no word of these, Error(kBadData) when the run's plan
/// cannot be read; as load_recipe does.
TrainedRun open_trained_run(const RunChoice& choice, const std::vector<std::string>& overrides);

/// Fills the module with the evaluated weights of the run's checkpoint, or with those of the file in their
/// place.
/// @throws Error(kBadData) when the checkpoint is broken, when its weights are of another model, and when the
/// model's file is not the one that the run was trained with.
void load_evaluated_weights(const TrainedRun& run, const torch::nn::Module& module);

}  // namespace autotrain
