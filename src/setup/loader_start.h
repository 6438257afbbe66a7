#pragma once

#include <string>

#include "autotrain/plan.h"
#include "data/loading_rates.h"
#include "plan/workbench.h"

namespace autotrain {

/// What the last trial of the size that the plan executes measured; unknown where plans were made before
/// trials measured it.
LoadingRates rates_of(const BatchPlan& plan);

/// Has the bench's loader begin with as many threads as the rates ask for and the machine has free, unless
/// the recipe gives a number. On a CPU, whose cores the step computes on, with half of them at most: a run
/// adds what pays. Says so where data will be slower than the step.
void start_loader(const BatchPlan& plan, const LoaderRecipe& asked, Workbench& bench);

/// What is lacking, and what would help with these data: "" where `threads` are enough.
/// @param asked the recipe gives their number; else they are those that the machine has free.
std::string too_slow(const LoadingRates& rates, int64_t threads, bool asked, const Dataset& data);

}  // namespace autotrain
