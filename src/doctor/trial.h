#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "autotrain/plan.h"
#include "autotrain/recipe.h"

namespace autotrain {

/// How a recipe trained for a few seconds.
struct Trial {
  double samples_per_second = 0;
  std::map<std::string, double> shares = {};  ///< of the time, by activity; they sum to 1
};

/// Trains a recipe for about `seconds`, without files, evaluations or checkpoints. The first updates are not
/// counted. @throws Error(kInterrupted) after a signal, and whatever training throws.
Trial try_training(Recipe recipe, double seconds);

/// How fast samples can be loaded when nothing else is done.
struct LoadingFigures {
  double samples_per_second = 0;  ///< with the recipe's threads
  double bytes_per_second = 0;    ///< of finished batches
  double busy_share = 0;          ///< of one thread's time with a core that it computed; the rest it waited
  int64_t holdable_bytes = 0;     ///< that preload: ram would take; 0: nothing is left to preload
};

/// Says where the time of a training step goes, operator by operator.
struct StepProfile {
  double products_share = 0;  ///< of the step's time in products of matrices and convolutions, both ways
  std::string slowest = {};   ///< of the other operators: "aten::max_pool2d_with_indices"
  double slowest_share = 0;   ///< of the step's time, all calls of it
  bool convolutions = false;  ///< whether there are any
};

/// Observes some steps on `micro_batch` samples. Nothing on a GPU, whose operators only start here.
std::optional<StepProfile> profile_step(Recipe recipe, int64_t micro_batch);

LoadingFigures try_loading(const Recipe& recipe, int64_t micro_batch, double seconds);

}  // namespace autotrain
