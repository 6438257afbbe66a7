#pragma once

#include "data/stream.h"
#include "plan/workbench.h"

namespace autotrain {

/// The samples of a data set at these places of its own order, on the run's device.
Batch load_samples(Workbench& bench, const Dataset& data, const Piece& places);

}  // namespace autotrain
