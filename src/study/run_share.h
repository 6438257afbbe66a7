#pragma once

#include "autotrain/trainer.h"
#include "study/curve.h"

namespace autotrain {

/// A file in the folder of a run that a study paused: what else a callback stopped has ended.
inline constexpr const char* kPausedMark = "paused.txt";

/// Has `fit` stop at the first update at which `share` of the run is done (share_of_run), with an evaluation
/// and a checkpoint. A trainer that resumes there goes on as if there had been no pause: schedules are those
/// of the whole run. An evaluation more than `evaluation.every` asks for is made where none was due; it is
/// one of those that `stop.patience` counts, and a schedule that follows evaluations takes no notice of it.
/// @param share below 1; a run that ends by itself is not paused.
void pause_at(Trainer& trainer, const StopRecipe& stop, double share);

}  // namespace autotrain
