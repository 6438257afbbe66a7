#include "setup/start_log.h"

#include <algorithm>

#include "autotrain/log.h"
#include "base/text.h"
#include "optim/lr_rules.h"
#include "plan/plan_enums.h"
#include "plan/planner.h"
#include "state/catalog.h"

namespace autotrain {
namespace {

void log_learning_rate(const Recipe& recipe, const BatchPlan& plan) {
  const LearningRatePlan& lr = plan.lr;
  for (const std::string& stage : stages_in_words(plan)) log::info("plan", stage);
  if (plan.stages.empty()) {
    log::info("optim", cat("learning rate ", brief(lr.base), " → ", brief(lr.scaled), " (", lr.rule,
                           " rule, ", plan.effective_batch, " ÷ ", lr.reference_batch, " samples)"));
  }
  const bool scaled = plan.effective_batch != lr.reference_batch;
  const OptimizerRow& optimizer = find_optimizer(recipe.optimizer.algorithm.name);
  if (scaled && optimizer.adaptive && find_lr_rule(lr.rule).optimizers == LrRule::For::kPlain) {
    const LrRule& better = lr_rule_for(LrRule::For::kAdaptive);
    log::info("optim", cat("for ", optimizer.spec.name, " batch.lr_rule: ", better.spec.name,
                           " is better founded: ", better.spec.sentence));
  }
}

void log_groups(const Recipe& recipe, const Optimizer& optimizer) {
  if (recipe.optimizer.groups.empty()) return;
  log::info("optim", cat("parameter groups: ", describe(optimizer.groups(), optimizer.parameters())));
}

void log_decay(const Optimizer& optimizer) {
  const auto decays = [](const ParameterGroup& group) {
    return group.weight_decay > 0 && !group.parameters.empty();
  };
  if (std::ranges::none_of(optimizer.groups(), decays)) return;
  log::info("optim", cat(optimizer.decayed(), " of ", optimizer.parameters().size(),
                         " tensors decay: no biases and weights of normalisation but where decay_all asks"));
}

void log_batch_norm(const BatchPlan& plan, const Workbench& bench) {
  if ((plan.window == 1 && plan.lanes == 1) || !has_batch_norm(bench.task->module())) return;
  log::warn("plan", cat("batch normalisation takes its statistics from ", plan.micro_batch,
                        " samples at a time, not from ", plan.effective_batch,
                        ": this is not the big batch. A larger execution.memory.budget, a smaller "
                        "batch.effective or a model without batch normalisation makes it exact"));
}

}  // namespace

void log_start(const Recipe& recipe, const BatchPlan& plan, const Workbench& bench) {
  log::info("plan", summary_line(plan));
  log_learning_rate(recipe, plan);
  log_groups(recipe, *bench.optimizer);
  log_decay(*bench.optimizer);
  log_batch_norm(plan, bench);
}

}  // namespace autotrain
