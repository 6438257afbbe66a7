#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "loop/evaluator.h"
#include "study/trained_run.h"

namespace autotrain {

/// What an evaluation of a checkpoint's weights does otherwise.
struct EvaluationChange {
  std::optional<int64_t> samples = {};  ///< the first so many only; nothing: all

  /// Called once, with the model when it has its weights.
  std::function<void(torch::nn::Module& module)> prepare = [](torch::nn::Module&) {};
};

/// Evaluates a checkpoint's weights on the recipe's validation data, in the precision, memory format and
/// micro-batch of the plan: the figures of the run's own evaluation, to the bit on the same machine.
/// @param proceed called after every piece with the samples done.
/// @throws Error as loading and evaluating do; Error(kInterrupted) after a signal.
Evaluation evaluate_checkpoint(
    const TrainedRun& run, const std::function<void(int64_t samples)>& proceed = [](int64_t) {},
    const EvaluationChange& change = {});

/// A finished run's last weights with the data that it was trained on in the place of the validation data:
/// all of it, without augmentation.
TrainedRun on_training_set(const Recipe& recipe, const BatchPlan& plan, const std::filesystem::path& run,
                           int64_t update);

}  // namespace autotrain
