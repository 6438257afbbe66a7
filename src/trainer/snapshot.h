#pragma once

#include "autotrain/plan.h"
#include "checkpoint/checkpoint.h"
#include "trainer/parts.h"
#include "trainer/run_state.h"

namespace autotrain {

/// What a checkpoint says beside its tensors.
struct SavedRun {
  RunState state;
  BatchPlan plan;
  std::string recipe = {};  ///< resolved, as YAML
};

/// The live tensors of a run with its state, ready to be written. Tensors are not copied.
CheckpointContent gather(const Parts& parts, const SavedRun& run);

/// Copies a checkpoint's tensors into the run's.
/// @throws Error(kBadData) naming the tensors that are missing, left over or of another shape.
void restore(const CheckpointContent& content, Parts& parts);

/// @throws Error(kBadData) when a part is missing.
SavedRun saved_run(const CheckpointContent& content);

}  // namespace autotrain
