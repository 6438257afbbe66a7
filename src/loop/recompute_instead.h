#pragma once

#include "loop/session.h"

namespace autotrain {

/// For memory that runs out at the smallest micro-batch of a run whose recipe leaves open whether the
/// backward pass computes again what the forward pass would keep (execution.recompute: auto), and which keeps
/// so far: has it computed again from now on, and makes that part of the plan. To be called between windows,
/// by all ranks together.
/// @return whether it is so from now on; else nothing changed.
bool recompute_instead(Session& session);

}  // namespace autotrain
