#pragma once

#include <cstdint>

#include "autotrain/report.h"

namespace autotrain {

/// What the effective batch of a run that adapts it may become.
struct BatchBounds {
  int64_t least = 1;
  int64_t most = 1;
  int64_t whole = 1;  ///< samples of one micro-batch in every lane
  int64_t lanes = 1;
};

/// The effective batch after an evaluation: as far towards the gradient noise scale as a factor of 2 and the
/// bounds let it, in whole micro-batches or at least the same in every lane where such a number lies on the
/// way. It stays where the noise scale has no upper end, or where it would change by a factor of less
/// than 1.2.
int64_t adapted_batch(int64_t effective, const NoiseScale& noise, const BatchBounds& bounds);

}  // namespace autotrain
