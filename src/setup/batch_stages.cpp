#include "setup/batch_stages.h"

#include <algorithm>
#include <cmath>

#include "autotrain/log.h"
#include "base/text.h"
#include "base/units.h"
#include "optim/schedule.h"
#include "plan/planner.h"
#include "recipe/reader.h"
#include "setup/horizon.h"

namespace autotrain {
namespace {

// What a rule may come to where the recipe does not say it.
int64_t default_most(int64_t effective, int64_t dataset_size) {
  return std::max(effective, std::min(8 * effective, dataset_size / 20));
}

// The first of the samples [begin, end) that the schedule, which only falls, gives at most `part` of the
// rate; `end` when there is none.
int64_t first_at_most(double part, const Schedule& schedule, int64_t effective, int64_t begin, int64_t end) {
  while (begin < end) {
    const int64_t middle = begin + (end - begin) / 2;
    const double updates = static_cast<double>(middle) / static_cast<double>(effective);
    schedule.factor(updates) <= part ? end = middle : begin = middle + 1;
  }
  return begin;
}

BatchStages seesaw_stages(const Recipe& recipe, int64_t dataset_size) {
  const int64_t first = *recipe.batch.effective;
  const int64_t most = recipe.batch.limits.max_effective.value_or(default_most(first, dataset_size));
  const Horizon horizon = horizon_of(recipe, dataset_size, first);
  if (!horizon.samples) {
    fail_recipe(recipe, "batch.schedule.rule",
                "needs a run whose length is known, and only stop.minutes is set",
                "set stop.epochs, stop.updates or stop.samples too");
  }
  const Schedule schedule(recipe.schedule, horizon.updates, first);
  std::vector<BatchStage> stages = {{0, first}};
  int64_t begin = std::min(counted_product(schedule.warmup_updates(), first), *horizon.samples);
  double part = 0.5;
  for (int64_t effective = 2 * first; effective <= most; effective *= 2, part /= 2) {
    begin = first_at_most(part, schedule, first, begin, *horizon.samples);
    if (*horizon.samples - begin < effective) break;  // no room for an update
    if (stages.back().samples == begin) stages.pop_back();
    stages.push_back({begin, effective});
  }
  const int64_t largest = stages.back().effective;
  return {std::move(stages), first, largest};
}

BatchStages listed_stages(const std::vector<BatchStageRecipe>& recipe) {
  std::vector<BatchStage> stages;
  int64_t largest = 0;
  for (const BatchStageRecipe& stage : recipe) {
    stages.push_back({stage.samples, stage.effective.value()});
    largest = std::max(largest, stages.back().effective);
  }
  return {std::move(stages), 0, largest};
}

BatchStages adapted_stages(const BatchRecipe& batch, int64_t dataset_size) {
  const int64_t first = *batch.effective;
  return {{{0, first}},
          batch.limits.min_effective.value_or(ceil_div(first, 2)),
          batch.limits.max_effective.value_or(default_most(first, dataset_size))};
}

// A run that is resumed with a later stop may come to it.
void warn_of_stage_beyond_end(const Recipe& recipe, const BatchStages& stages, int64_t dataset_size) {
  if (recipe.batch.schedule.stages.empty()) return;
  const int64_t begins = stages.list().back().samples;
  const std::optional<int64_t> end = samples_to_stop(recipe, dataset_size, stages.first());
  if (end && begins >= *end)
    log::warn("plan", cat("batch.schedule: the run ends after ", format_count(*end),
                          " samples, before its last stage, from sample ", format_count(begins),
                          " on, which the plan has room for all the same"));
}

}  // namespace

int64_t BatchStages::at(int64_t samples) const {
  const auto behind = std::ranges::upper_bound(list_, samples, {}, &BatchStage::samples);
  return behind == list_.begin() ? first() : std::prev(behind)->effective;
}

BatchStages::Updates BatchStages::between(int64_t samples, int64_t limit) const {
  Updates updates{.samples = samples};
  for (size_t i = 0; i < list_.size(); ++i) {
    const bool last = i + 1 == list_.size();
    if (!last && list_[i + 1].samples <= updates.samples) continue;
    const int64_t effective = list_[i].effective;
    const int64_t room = std::max<int64_t>(0, limit - updates.samples) / effective;
    const int64_t wanted = last ? room : ceil_div(list_[i + 1].samples - updates.samples, effective);
    const int64_t count = std::min(room, wanted);
    updates.count += count;
    updates.samples += count * effective;
    if (count < wanted) break;
  }
  return updates;
}

BatchStages stages_of(const Recipe& recipe, int64_t dataset_size, int64_t constant) {
  const BatchRecipe& batch = recipe.batch;
  if (batch.adapts()) return adapted_stages(batch, dataset_size);
  if (batch.schedule.rule == BatchRule::kSeesaw) return seesaw_stages(recipe, dataset_size);
  if (!batch.schedule.stages.empty()) return listed_stages(batch.schedule.stages);
  return constant;
}

double scaled_rate(const Recipe& recipe, const BatchStages& stages, int64_t effective) {
  if (recipe.batch.schedule.rule != BatchRule::kSeesaw) return learning_rate_plan(recipe, effective).scaled;
  const double ratio = static_cast<double>(effective) / static_cast<double>(stages.first());
  return learning_rate_plan(recipe, stages.first()).scaled * std::sqrt(ratio);
}

void check_stages(const Recipe& recipe, const BatchStages& stages, int64_t dataset_size, int64_t lanes) {
  const BatchRecipe& batch = recipe.batch;
  const auto check = [&](const std::string& key, int64_t effective) {
    if (effective > dataset_size)
      fail_recipe(recipe, key, cat(effective, " is more than the ", dataset_size, " samples of the data set"),
                  "lower it; an update never sees a sample twice");
    if (effective < lanes)
      fail_recipe(recipe, key,
                  cat(effective, effective == 1 ? " sample is" : " samples are",
                      " less than one for each of the ", lanes, " lanes of an update"),
                  "raise it, use fewer ranks or fewer execution.lanes");
  };
  for (size_t i = 0; i < batch.schedule.stages.size(); ++i)
    check(cat("batch.schedule[", i, "].effective"), stages.list().at(i).effective);
  if (batch.adapts()) check("batch.limits.min_effective", stages.least());
  if (batch.effective) check("batch.effective", *batch.effective);
  check("batch.limits.max_effective", stages.largest());
  warn_of_stage_beyond_end(recipe, stages, dataset_size);
}

void describe_stages(const Recipe& recipe, const BatchStages& stages, const Lanes& lanes, BatchPlan& plan) {
  plan.stages.clear();
  plan.least_effective_batch = recipe.batch.adapts() ? stages.least() : 0;
  if (!stages.change()) return;
  for (const BatchStage& stage : stages.list()) {
    plan.stages.push_back({.samples = stage.samples,
                           .effective_batch = stage.effective,
                           .window = WindowCut{stage.effective, plan.micro_batch, lanes}.most_pieces(),
                           .lr = scaled_rate(recipe, stages, stage.effective)});
  }
  plan.lr.scaled = scaled_rate(recipe, stages, plan.effective_batch);
}

}  // namespace autotrain
