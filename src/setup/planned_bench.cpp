#include "setup/planned_bench.h"

namespace autotrain {

std::unique_ptr<Workbench> assemble_as_planned(const Recipe& recipe, const BatchPlan& plan) {
  auto bench =
      assemble(recipe, load_materials(recipe, ResolvedBudget{plan.budget_bytes, plan.budget_source}));
  set_recompute(recipe, *bench, plan.recompute);
  return bench;
}

}  // namespace autotrain
