#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "autotrain/plan.h"
#include "device/device.h"
#include "plan/size_search.h"

namespace autotrain {

/// Runs everything that the work at a batch of so many samples will run, from clean caches on.
/// @return seconds of one forward pass at that size once its kernels are known.
using InferenceTrial = std::function<double(int64_t batch)>;

/// What an inference batch is searched by.
struct InferenceRequest {
  const ExecutionRecipe& execution;  ///< its band and its search's limits
  int64_t samples = 1;               ///< of the data; no batch is larger
  std::optional<int64_t> most = {};  ///< the user's cap
  int64_t multiple_of = 1;
  int64_t floor_bytes = 0;                     ///< known to be needed at any size: weights, data
  std::optional<int64_t> typed = {};           ///< the user's own size, which is only tried
  std::optional<double> latency_seconds = {};  ///< that a forward pass may take at most
  std::vector<ProbeRecord> known = {};         ///< trials that were made before
};

/// Finds the largest batch of a forward pass in the band of the device's budget, or the largest within the
/// latency; every size that it returns has been run. When a trial shows that less than the budget is granted,
/// that is the budget from then on.
/// @throws Error(kDoesNotFit) when one sample, or the size that was typed, does not fit, or one sample takes
/// longer than the latency; whatever a trial throws that does not mean "does not fit".
SearchResult find_inference_batch(Device& device, const InferenceRequest& request,
                                  const InferenceTrial& trial, const TrialListener& listener = {});

/// Seconds of one forward pass in a trial that ran.
double forward_seconds(const ProbeRecord& trial);

}  // namespace autotrain
