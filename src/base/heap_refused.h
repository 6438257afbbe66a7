#pragma once

#include "autotrain/error.h"

namespace autotrain {

/// The error that stands for a std::bad_alloc, or a thread that could not be started, outside a trial: the
/// system refused this process memory for something other than tensors.
Error heap_refused();

}  // namespace autotrain
