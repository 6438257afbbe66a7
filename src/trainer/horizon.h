#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "autotrain/recipe.h"
#include "autotrain/report.h"

namespace autotrain {

/// How long a run is, in applied updates.
struct Horizon {
  std::optional<int64_t> updates = std::nullopt;  ///< unset: only time stops the run
  int64_t last_window = 0;  ///< samples of one last, shorter update (`stop.last: keep`); 0: none
  StopReason stopped_by = StopReason::kMinutes;  ///< the key that bounds it
};

/// Samples of the shorter update that such a run ends with; 0: none.
int64_t last_window_samples(const Recipe& recipe, int64_t dataset_size, int64_t effective);

/// @param dataset_size samples in an epoch; @param effective samples per update.
/// @throws Error(kBadRecipe) when the run would not make a single update.
Horizon horizon_of(const Recipe& recipe, int64_t dataset_size, int64_t effective);

}  // namespace autotrain
