#pragma once

#include "autotrain/error.h"

namespace autotrain {

/// What std::bad_alloc means once nobody has taken it for a size that does not fit: the process was refused
/// memory for something other than tensors.
Error heap_refused();

}  // namespace autotrain
