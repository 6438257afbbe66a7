#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/memory_phase.h"
#include "plan/operation_trace.h"
#include "plan/workbench.h"

namespace autotrain {

/// A tensor that is there when an update holds the most memory.
struct PeakTensor {
  int64_t bytes = 0;
  std::vector<int64_t> shape = {};
  std::string type = {};  ///< "float"
  OperationPlace made_by = {};
  MemoryPhase made_in = MemoryPhase::kForward;
  OperationPlace kept_for = {};  ///< the last operation that takes it; empty: none does any more
};

/// When an update holds the most memory, and of what that consists.
struct PeakTrace {
  int64_t held_before_bytes = 0;  ///< weights, state of the optimizer, data that are held
  int64_t made_bytes = 0;         ///< that operations of the update had made
  int64_t measured_bytes =
      0;                   ///< what the allocator counted at its peak; more: samples that wait, workspaces
  OperationPlace at = {};  ///< the operation after which it was so
  MemoryPhase phase = MemoryPhase::kForward;
  int64_t operation = 0, operations = 0;  ///< its number, and how many there are
  std::vector<PeakTensor> tensors = {};   ///< the largest first
};

/// Runs an update at that size, as a trial does, and looks after each operation what is there. Memory that an
/// operation takes and gives back itself is not seen. Leaves no trace.
/// @param window_samples of a lane; at least micro_batch. @throws as the task does; Error(kDoesNotFit) when
/// it runs out of memory.
PeakTrace trace_peak(Workbench& bench, int64_t micro_batch, int64_t window_samples);

}  // namespace autotrain
