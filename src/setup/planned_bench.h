#pragma once

#include <memory>

#include "autotrain/plan.h"
#include "setup/assembly.h"

namespace autotrain {

/// Everything that computes updates for a recipe as a plan of it has them: its budget, and whether backward
/// passes compute again. @throws as load_materials and assemble.
std::unique_ptr<Workbench> assemble_as_planned(const Recipe& recipe, const BatchPlan& plan);

}  // namespace autotrain
