#pragma once

#include <string>
#include <vector>

#include "autotrain/batch.h"
#include "plan/workbench.h"

namespace autotrain {

/// How long the windows of a trial take.
struct WindowSeconds {
  double whole = 0;  ///< a window, of many in a row
  double host = 0;   ///< of it, until the host had asked the device for all of it
};

/// What recording the kernels of a window came to.
struct RecordedWindows {
  WindowSeconds launched = {};  ///< each kernel by itself
  WindowSeconds replayed = {};  ///< zero where nothing was recorded
  std::string refused = {};     ///< why nothing was, or why it may not be used; "" if it may
};

/// Whether launching kernels one by one may keep the device waiting: the host needs a good part of a window's
/// time for it.
bool launches_show(const WindowSeconds& passes);

/// Times windows of these micro-batches, launched and recorded, and compares the gradients of both: bit for
/// bit where they repeat bit for bit, else to their own noise. Leaves no trace.
/// @param batches in main memory.
/// @param always records even where `launches_show` says that nothing can be gained.
/// @throws whatever the task and the device throw; lack of memory too.
RecordedWindows measure_recorded(Workbench& bench, const std::vector<Batch>& batches, bool always);

}  // namespace autotrain
