#include "trainer/run_checks.h"

#include <algorithm>

#include "base/text.h"
#include "loop/evaluator.h"
#include "optim/plateau.h"
#include "plan/cut.h"
#include "plan/planner.h"
#include "recipe/reader.h"
#include "setup/batch_stages.h"
#include "setup/horizon.h"

namespace autotrain {
namespace {

void check_figure(const Recipe& recipe, Workbench& bench, const std::string& key, const std::string& figure) {
  if (figure == "loss" || bench.data.validation == nullptr) return;
  const FigureKinds kinds = evaluation_kinds(bench);
  if (kinds.contains(figure)) return;
  std::vector<std::string> names;
  for (const auto& [name, kind] : kinds) names.push_back(name);
  fail_recipe(recipe, key, quote(figure) + " is not measured here", "one of " + join_choices(names));
}

// Batch normalisation has no statistics of one sample.
void check_windows(const Recipe& recipe, const Workbench& bench, const BatchPlan& plan) {
  if (!has_batch_norm(bench.task->module())) return;
  const BatchStages course = stages_of(recipe, bench.data.train->size(), plan.effective_batch);
  const auto leaves_one = [&](int64_t samples) {
    return samples > 0 && smallest_remainder(samples, plan.lanes, plan.micro_batch) == 1;
  };
  const int64_t last = horizon_of(recipe, bench.data.train->size(), course).last_window;
  if (leaves_one(last)) {
    fail_recipe(recipe, "stop.last",
                cat("the run ends with an update of ", last,
                    " samples, whose last micro-batch has one sample; "
                    "batch normalisation cannot learn from it"),
                "set stop.last: drop, or change execution.micro_batch");
  }
  for (const BatchStage& stage : course.list()) {
    if (!course.change() || !leaves_one(stage.effective)) continue;
    fail_recipe(
        recipe, "batch.schedule",
        cat("the ", stage.effective, " samples of an update leave a micro-batch of one beside those of ",
            plan.micro_batch, ", and batch normalisation cannot learn from it"),
        "change that stage, or execution.micro_batch");
  }
}

void check_statistics(const Recipe& recipe, const Workbench& bench, const BatchPlan& plan) {
  const bool adapts = recipe.batch.adapts();
  if (recipe.execution.statistics != Statistics::kOn && !adapts) return;
  const char* const key = adapts ? "batch.adapt.rule" : "execution.statistics";
  const std::string otherwise = adapts ? "leave batch.adapt out" : "set execution.statistics: auto";
  if (!may_measure_noise(recipe, *bench.data.train)) {
    fail_recipe(
        recipe, key,
        "needs the noise of gradients, but samples differ in length: windows are sorted by it, and no "
        "micro-batch stands for its window",
        otherwise);
  }
  const int64_t least =
      adapts ? stages_of(recipe, bench.data.train->size(), 0).least() : plan.effective_batch;
  if (has_parts({least, plan.micro_batch, bench.lanes})) return;
  fail_recipe(
      recipe, key,
      cat("needs the noise of gradients, but ", adapts ? cat("an update of ", least) : "every update",
          " is a single micro-batch, which has nothing to compare it with"),
      cat("set execution.micro_batch to ", std::max<int64_t>(1, std::min(least, plan.micro_batch) / 2),
          ", execution.lanes to 2, or ", otherwise));
}

}  // namespace

void check_evaluations(const Recipe& recipe, const Workbench& bench) {
  if (bench.data.validation != nullptr) return;
  const auto refuse = [&](const std::string& key, const std::string& what) {
    fail_recipe(recipe, key, what, "give validation data");
  };
  if (recipe.stop.patience) refuse("stop.patience", "needs an evaluation to wait for");
  if (recipe.batch.adapts()) refuse("batch.adapt.rule", "needs evaluations to follow");
  if (plateau_of(recipe)) refuse("schedule.name", "plateau needs evaluations to follow");
}

void check_figures(const Recipe& recipe, Workbench& bench) {
  check_figure(recipe, bench, "evaluation.monitor", recipe.evaluation.monitor);
  if (const std::optional<Plateau> plateau = plateau_of(recipe)) {
    check_figure(recipe, bench, "schedule.figure", plateau->figure);
  }
}

void check_plan(const Recipe& recipe, const Workbench& bench, const BatchPlan& plan) {
  check_windows(recipe, bench, plan);
  check_statistics(recipe, bench, plan);
}

}  // namespace autotrain
