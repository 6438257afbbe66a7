#pragma once

#include <functional>
#include <vector>

#include "autotrain/plan.h"
#include "autotrain/trainer.h"

namespace autotrain {

/// Makes a plan and tells the observer of its trials. `known`: trials that were made before.
using MakePlan = std::function<BatchPlan(const std::vector<ProbeRecord>& known, RunObserver& observer)>;

/// What `make` returns, made in a process of its own: whatever the search leaves in memory ends with it. A
/// trial that ends that process, since a library could not bear that memory was short or the system killed
/// it, is a trial that did not fit; the search goes on in another process. Log lines, trials and errors of
/// that process are those of this one.
///
/// This process starts copies of itself: Child says what it must not have done before. Its model, data and
/// device are not touched.
/// @throws what `make` throws; Error(kInterrupted) after a signal; Error(kInternal) when the process ends by
/// itself while no trial is under way.
BatchPlan plan_in_own_process(const MakePlan& make, RunObserver& observer);

}  // namespace autotrain
