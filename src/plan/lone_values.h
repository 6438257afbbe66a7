#pragma once

#include <string>

#include "plan/workbench.h"

namespace autotrain {

/// What takes statistics of single values in a forward pass of the first `samples` training samples, in
/// training mode, as batch normalisation does of one vector or of one image of 1 × 1:
/// "aten::native_batch_norm over [1, 16]". "" where nothing does: of one image, batch normalisation takes
/// them of its pixels. Leaves no trace.
std::string statistics_of_single_values(Workbench& bench, int64_t samples);

}  // namespace autotrain
