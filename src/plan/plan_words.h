#pragma once

#include <string>

#include "autotrain/plan.h"

namespace autotrain {

/// A trial of training, for the log: "micro 64 · peak 1.20 GiB · fill 86.1 % · fits, confirmed · 1.2 s".
std::string trial_in_words(const ProbeRecord& probe);

/// Why the plan's search ended where it did, for people.
std::string reason_in_words(const BatchPlan& plan);

}  // namespace autotrain
