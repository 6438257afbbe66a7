#pragma once

#include <string>
#include <vector>

#include "autotrain/plan.h"
#include "autotrain/report.h"
#include "setup/assembly.h"

namespace autotrain {

/// What was left on the table and what to try, one sentence each; empty when there is nothing to say.
std::vector<std::string> advice_for(const Recipe& recipe, const BatchPlan& plan, const Workbench& bench,
                                    const Summary& summary);

/// Names the rank that keeps the others waiting; "" where none does, or chance makes now one and now another
/// the slowest.
std::string straggler_advice(const Summary& summary);

}  // namespace autotrain
