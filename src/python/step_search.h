#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "autotrain/plan.h"
#include "python/carrying_device.h"

namespace autotrain {

/// What a search asks of the step that somebody else runs.
enum class StepPart {
  kUpdate = 0,      ///< forward, backward and update of these micro-batches, of the costliest samples
  kTypical = 1,     ///< the same of samples as they come; not asked where there is no difference
  kEvaluation = 2,  ///< an evaluation of so many samples
  kEnd = 3,         ///< the trial is over: what it left is dropped
};

/// What became of it.
enum class StepSaid {
  kNothing = 0,  ///< the call did not come to its end
  kRan = 1,
  kOutOfMemory = 2,
  kLibraryMemory = 3,
  kIndexLimit = 4,
  kStop = 5,  ///< an error that is not about memory, or an interrupt: whoever ran it knows which
};

/// Runs a part. @param micro_batches the samples of each. Must not throw.
using RunStep = std::function<StepSaid(StepPart part, const std::vector<int64_t>& micro_batches)>;

/// How an update of the effective batch is cut.
enum class StepCut {
  kAuto,    ///< as even as can be where that stays in the band, else full micro-batches and a rest
  kEven,    ///< as even as can be
  kFull,    ///< full micro-batches and a rest
  kDivide,  ///< all alike: the micro-batch divides the effective batch
};

struct StepRequest {
  std::optional<int64_t> effective = {};  ///< samples of an update; unset: one micro-batch is an update
  std::optional<int64_t> most = {};       ///< no larger micro-batch
  int64_t minimum = 1;                    ///< 2 with batch normalisation
  int64_t multiple_of = 1;
  StepCut cut = StepCut::kAuto;
  double target_low = 0.8, target_high = 0.9;
  int64_t max_probes = 12;
  double max_seconds = 120;
  int64_t floor_bytes = 0;  ///< known to be needed at any size
  bool costs_differ = false;
  bool evaluates = false;
};

struct StepPlan {
  BatchPlan plan;
  std::string said = {};  ///< about the cut, where there is something to say
};

/// Finds the micro-batch of a step that somebody else runs on this device, and how many make an update.
/// @return nothing when `run` stopped it.
/// @throws Error(kDoesNotFit) when not even the smallest size fits.
std::optional<StepPlan> find_step_batch(CarryingDevice& device, const StepRequest& request,
                                        const RunStep& run);

}  // namespace autotrain
