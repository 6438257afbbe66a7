#pragma once

#include <exception>
#include <string>

#include "autotrain/error.h"
#include "autotrain/plan.h"
#include "loop/saver.h"
#include "loop/session.h"
#include "setup/assembly.h"

namespace autotrain {

/// Whether what was thrown tells of memory that was refused, by an allocator or inside a library.
bool lacks_memory(const std::exception& error);

/// Gives back everything that can be had back, a checkpoint's copy included. @return what had been refused.
std::optional<Refusal> free_memory(Session& session, Saver& saver);

/// Memory that ran out in mid-run, as an error that its user can act on: phase, what was asked for, what
/// holds the memory, and what fits by the plan's own trials.
/// @param refusal      what the allocator said then.
/// @param activity     "training" or "evaluation".
/// @param micro_batch  the size that did not fit.
/// @param layer        where in the model it happened; "" when not known.
Error out_of_memory(Workbench& bench, const BatchPlan& plan, const std::exception& error,
                    const std::optional<Refusal>& refusal, const std::string& activity, int64_t micro_batch,
                    const std::string& layer);

}  // namespace autotrain
