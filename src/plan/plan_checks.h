#pragma once

#include <optional>

#include "plan/planner.h"
#include "plan/split_check.h"

namespace autotrain {

/// What a recipe may not ask of the updates of its run. Each throws Error, naming the key.

/// The effective batch, or what stands for it, has a sample for each lane and no more than the data.
void check_effective(const PlanRequest& request, const Workbench& bench);

/// Micro-batches of one sample that batch normalisation can take no statistics of are refused, whatever would
/// lead to them.
void check_single_samples(const PlanRequest& request, Workbench& bench);

/// Whether accumulation may come to pass. Asked before the search, because what the check of cuts compiles
/// and keeps belongs to the memory that the search measures.
bool may_accumulate(const PlanRequest& request);

/// An update that is cut is of a task that may be cut; what the check showed is told, and kept in the plan.
void check_window(const PlanRequest& request, const Workbench& bench,
                  const std::optional<SplitVerdict>& verdict, BatchPlan& plan);

/// Checks whether the task's batches may be cut, where they may have to be; where they are not cut, whether
/// the gradients of a user's own code are proportional to the loss. Returns nothing where there is nothing to
/// check.
std::optional<SplitVerdict> verdict_on_cuts(const PlanRequest& request, Workbench& bench);

}  // namespace autotrain
