#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "autotrain/plan.h"
#include "autotrain/recipe.h"

namespace autotrain {

/// The largest batch of a forward pass whose memory lies in the band.
struct LargestBatch {
  std::string failure = {};  ///< why there is none; then the rest is empty
  int64_t batch = 0;
  SearchReason reason = SearchReason::kInBand;
  double fill = 0;
  int64_t peak_bytes = 0;
  int64_t budget_bytes = 0;
  double samples_per_second = 0;  ///< of a forward pass in its trial
  std::vector<ProbeRecord> trials = {};
};

/// Searches it for what the recipe names, with batches that are on the device already. For a process of its
/// own. @throws Error(kDoesNotFit) when one sample does not fit.
nlohmann::ordered_json measure_largest(const Recipe& recipe);

/// As measure_largest and sweep.json have it; null: it was not asked for.
nlohmann::ordered_json to_json(const LargestBatch& largest);
LargestBatch largest_from_json(const nlohmann::ordered_json& json);

}  // namespace autotrain
