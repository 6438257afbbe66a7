#pragma once

#include "study/sharpness_figures.h"
#include "study/trained_run.h"

namespace autotrain {

/// How sharp the minimum is in which a checkpoint's weights lie, on a part of the run's validation data (see
/// on_training_set), the same part for every run: in evaluation mode, so with fixed statistics and without
/// dropout, in fp32, without penalties. The largest eigenvalue of the loss's Hessian by the method of
/// Lanczos, and how the loss rises along relative directions. Micro-batches become smaller where memory runs
/// out.
/// @return with `unavailable` where the model cannot be differentiated twice, or for lack of memory.
/// @throws Error(kInterrupted) after a signal.
Sharpness measure_sharpness(const TrainedRun& run);

}  // namespace autotrain
