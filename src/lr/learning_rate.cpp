#include "lr/learning_rate.h"

#include <cmath>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "autotrain/trainer.h"
#include "base/text.h"
#include "base/units.h"
#include "model/initial_weights.h"
#include "plan/planner.h"
#include "setup/planned_bench.h"
#include "state/snapshot.h"
#include "study/recipe_files.h"

namespace autotrain {
namespace {

// With such a budget the plan fits as it is, and the copies beside it.
Error no_room_for_copies(int64_t copies, const BatchPlan& plan, const MemoryRecipe& memory, int64_t budget) {
  const double enough = static_cast<double>(plan.peak_bytes + copies) / memory.target_high;
  const auto mebibytes = static_cast<int64_t>(std::ceil(enough / (1 << 20)));
  return Error(ExitCode::kDoesNotFit, "lr",
               cat("the copies of weights and optimizer state, which are put back after each stretch, need ",
                   format_bytes(copies), ", and no micro-batch fits beside them into the budget of ",
                   format_bytes(budget)),
               cat("--set execution.memory.budget=", mebibytes, "MiB"));
}

// While it lives the device has the budget less what it reserves.
class ReserveScope {
 public:
  ReserveScope(Device& device, int64_t bytes)
      : device_(device), whole_{device.budget_bytes(), device.budget_source()} {
    device_.set_budget({whole_.bytes - bytes, whole_.source});
  }
  ~ReserveScope() { device_.set_budget(whole_); }
  ReserveScope(const ReserveScope&) = delete;
  ReserveScope& operator=(const ReserveScope&) = delete;

 private:
  Device& device_;
  const ResolvedBudget whole_;
};

// The same update in micro-batches beside which the copies of what is put back fit.
BatchPlan with_room_for_copies(Recipe recipe, const BatchPlan& plan, Workbench& bench) {
  const int64_t copies = restored_bytes(bench), budget = bench.device->budget_bytes();
  if (plan.peak_bytes + copies <= budget) return plan;
  const Error no_room = no_room_for_copies(copies, plan, recipe.execution.memory, budget);
  if (copies >= budget) throw no_room;
  recipe.batch.effective = plan.effective_batch;
  recipe.execution.search.plan_cache = false;
  BatchPlan smaller;
  try {
    const ReserveScope reserve(*bench.device, copies);
    smaller = Planner({.recipe = recipe, .lanes = bench.lanes.of}, bench).plan();
  } catch (const Error& error) {
    if (error.code() != ExitCode::kDoesNotFit) throw;
    throw no_room;
  }
  log::info("lr", cat("micro-batches of ", smaller.micro_batch, " samples in the place of ", plan.micro_batch,
                      ": ", format_bytes(copies), " are for copies of weights and optimizer state"));
  return smaller;
}

LearningRateTest test_on(Workbench& bench, const Recipe& recipe, const BatchPlan& plan,
                         const RangeTestOptions& options) {
  LearningRateTest test{.name = recipe.name,
                        .plan = with_room_for_copies(recipe, plan, bench),
                        .clip_norm = recipe.optimizer.clip_norm,
                        .samples = bench.data.train->size()};
  test.definition = definition_of(recipe, options);
  test.stretches = range_test(bench, test.plan, options);
  test.suggestion = suggest(test.stretches, test.plan.lr, test.reading());
  return test;
}

}  // namespace

nlohmann::ordered_json definition_of(const Recipe& recipe, const RangeTestOptions& options) {
  nlohmann::ordered_json definition = recipe_definition(recipe, RecipeFiles().of(recipe));
  definition.update({{"from", options.from},
                     {"to", options.to},
                     {"factor", options.factor},
                     {"stretches", options.stretches},
                     {"hold", options.held_updates},
                     {"position", options.position}});
  return definition;
}

LearningRateTest test_learning_rate(const Recipe& recipe, bool fresh_plan, const RangeTestOptions& options) {
  const BatchPlan plan =
      Trainer::from_recipe(recipe, {.write_files = false, .fresh_plan = fresh_plan, .search_apart = true})
          .plan();
  const auto bench = assemble_as_planned(recipe, plan);
  if (recipe.weights.file) take_weights(recipe.weights, bench->task->module());
  return test_on(*bench, recipe, plan, options);
}

LearningRateTest test_learning_rate(const TrainedRun& run, RangeTestOptions options) {
  const CheckpointFolder checkpoints(run.folder / "checkpoints");
  Recipe recipe = run.recipe;
  recipe.execution.precision = run.plan.precision;
  recipe.execution.memory_format = run.plan.memory_format;
  const auto bench = assemble_as_planned(recipe, run.plan);
  const Position at = saved_run(checkpoints.read_state(run.update)).state.position;
  load_tensors(checkpoints, run.update, *bench);
  options.position = at.cursor;
  options.window = at.windows;
  BatchPlan plan = run.plan;
  plan.lr = learning_rate_plan(recipe, plan.effective_batch);
  LearningRateTest test = test_on(*bench, recipe, plan, options);
  test.updates = run.update;
  return test;
}

}  // namespace autotrain
