#include "plan/plan_checks.h"

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/text.h"
#include "model/models.h"
#include "plan/lone_values.h"
#include "step/own_code.h"

namespace autotrain {

void check_effective(const PlanRequest& request, const Workbench& bench) {
  const Recipe& r = request.recipe;
  const int64_t effective = r.batch.effective.value_or(r.execution.micro_batch.value_or(1) * request.lanes);
  if (effective < request.lanes) {
    throw Error(ExitCode::kBadRecipe, "batch.effective",
                cat(effective, effective == 1 ? " sample is" : " samples are",
                    " less than one for each of the ", request.lanes, " lanes of an update"),
                "raise it, use fewer ranks or fewer execution.lanes");
  }
  if (effective <= bench.data.train->size()) return;
  const bool typed = r.batch.effective.has_value();
  throw Error(ExitCode::kBadRecipe, typed ? "batch.effective" : "execution.micro_batch",
              cat(effective, " is more than the ", bench.data.train->size(), " samples of the data set"),
              "lower it; an update never sees a sample twice");
}

void check_single_samples(const PlanRequest& request, Workbench& bench) {
  if (smallest_batch(bench.task->module()) == 1) return;
  const Recipe& r = request.recipe;
  const auto& typed = r.execution.micro_batch;
  const auto& most = r.batch.limits.max_micro_batch;
  const auto& most_effective = r.batch.limits.max_effective;
  std::string key;
  if (r.batch.effective && *r.batch.effective / request.lanes < 2) {
    key = "batch.effective";
  } else if (typed ? *typed < 2 && !r.batch.effective : most && *most < 2) {
    key = typed ? "execution.micro_batch" : "batch.limits.max_micro_batch";
  } else if (!r.batch.effective && !typed && most_effective && *most_effective / request.lanes < 2) {
    key = "batch.limits.max_effective";
  } else if (!r.batch.effective && bench.data.train->size() / request.lanes < 2) {
    key = "data.train";
  }
  if (key.empty()) return;
  const std::string what = statistics_of_single_values(bench, 1);
  if (what.empty()) return;
  const bool of_data = key == "data.train";
  throw Error(ExitCode::kBadRecipe, key,
              cat(of_data ? "has one sample a lane" : "makes micro-batches of one sample",
                  ", and batch normalisation has no statistics of single values (", what, ")"),
              cat(of_data ? "give more samples" : "set it to 2 or more for each lane",
                  ", or take a model without batch normalisation"));
}

bool may_accumulate(const PlanRequest& request) {
  const auto& typed = request.recipe.execution.micro_batch;
  if (request.lanes > 1) return true;  // whose sums are added as those of micro-batches are
  return request.share() > 1 && !(typed && *typed >= request.share());
}

std::optional<SplitVerdict> verdict_on_cuts(const PlanRequest& request, Workbench& bench) {
  Task& task = *bench.task;
  if (may_accumulate(request) && task.splittable() && !task.makes_passes()) return check_split(bench);
  return runs_own_code(task.module()) ? std::optional(check_proportional(bench)) : std::nullopt;
}

void check_window(const PlanRequest& request, const Workbench& bench,
                  const std::optional<SplitVerdict>& verdict, BatchPlan& plan) {
  if ((plan.window == 1 && plan.lanes == 1) || bench.task->makes_passes()) {
    if (!verdict || verdict->kind != SplitVerdict::Kind::kClipped) return;
    plan.split_check = verdict->text();
    log::warn("plan", plan.split_check);
    return;
  }
  if (!bench.task->splittable()) {
    if (plan.lanes > 1) {
      throw Error(ExitCode::kBadRecipe, "execution.lanes",
                  cat("the task mixes samples (splittable: false), and an update of ", plan.lanes,
                      " lanes computes them apart"),
                  "use one rank, and leave execution.lanes at auto; or compute the loss by in_two_passes "
                  "(autotrain/two_passes.h)");
    }
    throw Error(ExitCode::kDoesNotFit, "batch.effective",
                cat("the task mixes samples (splittable: false), so its ", request.share(),
                    " samples must fit in one micro-batch, and only ", plan.search.micro_batch, " do"),
                "lower batch.effective, or raise execution.memory.budget");
  }
  plan.split_check = verdict->text();
  const bool sound =
      verdict->kind == SplitVerdict::Kind::kExact || verdict->kind == SplitVerdict::Kind::kNotChecked;
  sound ? log::info("plan", plan.split_check) : log::warn("plan", plan.split_check);
}

}  // namespace autotrain
