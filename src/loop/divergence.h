#pragma once

#include <string>

#include "autotrain/error.h"
#include "autotrain/recipe.h"
#include "loop/session.h"
#include "loop/window_runner.h"
#include "step/update_step.h"

namespace autotrain {

/// What a run does after an update that was not finite and was skipped.
enum class AfterSkip { kGoOn, kRollBack, kEnd };

/// Decides by the recipe's section `divergence` and `stop.max_skipped`.
/// @param skips updates in a row that were skipped, this one included.
AfterSkip after_skip(const UpdateOutcome& skipped, int64_t skips, const Recipe& recipe, Precision precision);

/// The error that ends a run which does not get over numbers that are not finite. Runs the window's samples
/// again to name the first layer whose output is not finite.
/// @param why_here appended to what happened; "" where the skips say it all.
Error diverged(const Session& session, const QueuedUpdate& update, const UpdateOutcome& outcome,
               const std::string& why_here = "");

}  // namespace autotrain
