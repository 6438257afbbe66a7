#pragma once

#include <string>
#include <vector>

#include "autotrain/batch.h"
#include "plan/workbench.h"

namespace autotrain {

/// What recording the kernels of a window came to.
struct RecordedWindows {
  double launched_seconds = 0;  ///< of a window, of many in a row, with each kernel launched by itself
  double replayed_seconds = 0;  ///< the same, recorded; 0 where nothing was
  std::string refused = {};     ///< why nothing was, or why it may not be used; "" if it may
};

/// Times windows of these micro-batches, launched and recorded, and compares the gradients of both: bit for
/// bit where they repeat bit for bit, else to their own noise. Leaves no trace.
/// @param batches in main memory.
/// @param always records even where `launches_show` says that nothing can be gained.
/// @param trusted what differs from one launched window to the next is the kernels' doing: no code of the
/// program's own is in the passes, or the user answers for it.
/// @throws whatever the task and the device throw; lack of memory too.
RecordedWindows measure_recorded(Workbench& bench, const std::vector<Batch>& batches, bool always,
                                 bool trusted);

}  // namespace autotrain
