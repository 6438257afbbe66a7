#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "autotrain/recipe.h"
#include "autotrain/report.h"
#include "setup/batch_stages.h"

namespace autotrain {

/// How long a run is. Where the effective batch changes, stop.updates stands for as many samples as so many
/// updates of the first stage have.
struct Horizon {
  std::optional<int64_t> samples = std::nullopt;  ///< of applied updates at most; unset: only time stops it
  std::optional<int64_t> updates =
      std::nullopt;         ///< the same in updates of the first stage, as schedules count
  int64_t last_window = 0;  ///< of one last, shorter update (`stop.last: keep`); 0: none
  StopReason stopped_by = StopReason::kMinutes;  ///< the key that bounds it
  bool keep_last = false;

  /// Samples of the next update after `learned` of applied ones, where the stage has `effective`; 0: there is
  /// none.
  int64_t next_window(int64_t learned, int64_t effective) const;

  /// All updates of a run that has made `updates` of them, with `learned` samples; 0: unknown. @param stages
  /// as they are from there on.
  int64_t total_updates(int64_t updates, int64_t learned, const BatchStages& stages) const;
};

/// Samples of applied updates after which the first stop that counts them ends a run; nothing: only time
/// does.
/// @param dataset_size samples in an epoch. @param effective of the first updates.
std::optional<int64_t> samples_to_stop(const Recipe& recipe, int64_t dataset_size, int64_t effective);

/// Samples of the shorter update that such a run ends with; 0: none, or not known before.
int64_t last_window_samples(const Recipe& recipe, int64_t dataset_size, const BatchStages& stages);

/// @param dataset_size samples in an epoch.
/// @throws Error(kBadRecipe) when the run would not make a single update.
Horizon horizon_of(const Recipe& recipe, int64_t dataset_size, const BatchStages& stages);

}  // namespace autotrain
