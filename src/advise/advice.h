#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "advise/batch_model.h"
#include "advise/rescale.h"
#include "advise/verification.h"
#include "autotrain/plan.h"
#include "autotrain/recipe.h"

namespace autotrain {

/// What a run's folder tells of its batch. Where the run changed its batch, every figure describes the last
/// batch and the updates that were made with it.
struct ObservedRun {
  std::filesystem::path folder = {};
  Recipe recipe = {};
  BatchPlan plan = {};  ///< with that batch
  int64_t updates = 0;
  int64_t samples = 0;
  double seconds = 0;         ///< of training
  int64_t dataset_size = 0;   ///< samples in an epoch
  double update_seconds = 0;  ///< median of what an update's optimizer step took
  double passes_seconds = 0;  ///< likewise forward and backward of all micro-batches
  std::optional<double> exchange_seconds =
      {};  ///< likewise what ranks waited for the exchange; nothing: one rank
  std::optional<NoiseScale> plain_noise = {};
  std::optional<NoiseScale> preconditioned_noise = {};  ///< in the metric of an optimizer that has its own
  std::optional<NoiseScale> noise = {};                 ///< of the two, the one that decides
  std::optional<NoiseScale> early_noise = {};  ///< the same as it stood after a quarter of the updates
  std::string no_noise_because = {};           ///< and what to set; "" where there is a noise scale
  std::optional<double> seen = {};  ///< part of its planned samples; nothing: only time ends the run

  /// In the optimizer's metric it says how large that one's steps are, so it decides where it is estimated; a
  /// lower bound alone does not.
  bool by_preconditioned() const { return preconditioned_noise && preconditioned_noise->samples; }

  /// Whether most of the run lies ahead, in which the noise scale usually rises.
  bool early() const { return seen && *seen < 0.5; }

  /// The noise scale as far as it is known for the run as a whole. What was measured in the first half of a
  /// run is a lower bound of that.
  std::optional<NoiseScale> noise_of_whole_run() const {
    return noise && early() ? NoiseScale{.low = noise->low} : noise;
  }
};

/// @throws Error(kMissingFile) when the folder holds no run or the run made no update, Error(kBadData) when
/// its plan cannot be read; as load_recipe does.
ObservedRun observe_run(const std::filesystem::path& folder, const std::vector<std::string>& overrides);

/// How the run's updates are executed, without any speed yet.
ExecutionModel execution_of(const ObservedRun& run);

/// The micro-batches whose speed the table is made of, ascending.
std::vector<int64_t> micro_batches_of(const ObservedRun& run);

/// Speeds from what the run left: its own micro-batch, and the confirmed trials of its search.
std::vector<SpeedPoint> recorded_speeds(const ObservedRun& run);

/// All that there is to say of a run's batch.
struct Advice {
  ObservedRun run;
  ExecutionModel execution = {};
  BatchAdvice batch = {};
  std::vector<RecipeLine> lines = {};  ///< that go with the advised size; empty: it stays
  std::optional<Verification> verification = {};
  std::optional<size_t> refuted = {};  ///< row that the noise scale advises and branches speak against
  bool by_branches = false;            ///< they say that the advised size loses nothing at equal samples
};

/// Adds what branches have shown, which has the last word. Where the noise scale advises a smaller batch, and
/// that one or one between it and the run's own shows no gain, or a larger one, and one up to it is worse,
/// the run's own batch stays. Then, or where the noise scale leaves it, the fastest size up to the measured
/// critical batch is advised if it is faster by what is worthwhile: it needs no more samples.
void heed(Advice& advice, Verification verification);

/// @param speeds ascending, at least one.
Advice advise(ObservedRun run, std::vector<SpeedPoint> speeds);

/// advice.json (docs/formats.md).
nlohmann::ordered_json advice_to_json(const Advice& advice);

}  // namespace autotrain
