#pragma once

#include <exception>
#include <string>

#include "autotrain/error.h"
#include "autotrain/plan.h"
#include "trainer/parts.h"

namespace autotrain {

/// Memory that ran out in mid-run, as an error that its user can act on: phase, what was asked for, what
/// holds the memory, and what fits by the plan's own trials.
/// @param refusal   what the allocator said then. @param activity  "training" or "evaluation". @param
/// micro_batch  the size that did not fit.
/// @param layer     where in the model it happened; "" when not known.
Error out_of_memory(Parts& parts, const BatchPlan& plan, const std::exception& error,
                    const std::optional<Refusal>& refusal, const std::string& activity, int64_t micro_batch,
                    const std::string& layer);

}  // namespace autotrain
