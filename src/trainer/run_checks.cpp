#include "trainer/run_checks.h"

#include <ATen/ops/_unique.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "autotrain/log.h"
#include "base/text.h"
#include "base/units.h"
#include "data/bad_samples.h"
#include "data/detection_dataset.h"
#include "data/join.h"
#include "device/failure.h"
#include "device/system_memory.h"
#include "loop/evaluator.h"
#include "model/losses.h"
#include "optim/plateau.h"
#include "optim/schedule.h"
#include "plan/cut.h"
#include "plan/memory_statement.h"
#include "plan/planner.h"
#include "recipe/compare.h"
#include "recipe/idle_keys.h"
#include "recipe/reader.h"
#include "setup/batch_stages.h"
#include "setup/horizon.h"
#include "state/catalog.h"

namespace autotrain {
namespace {

// What a look at the targets of a data set found. It ends as soon as it has seen what it looks for.
struct TargetsSeen {
  bool whole = false;              // to the end
  bool counted = false;            // one has a weight in the loss
  std::set<int64_t> classes = {};  // of those that have
};

constexpr int64_t kMostBytes = 64 << 20;  // of samples that are read for their targets
constexpr int64_t kMostSamples = 256;     // at a time

// Of classes; nothing where the loss counts every target. In an order that meets classes early where files
// are sorted by them.
std::optional<TargetsSeen> look_at_targets(const Recipe& recipe, const Dataset& data, size_t classes) {
  TargetsSeen seen;
  const Stream stream(/*seed=*/0, data.size(), /*shuffle=*/true);
  int64_t bytes = 0, count = 2;
  for (int64_t at = 0; at < data.size(); at += count, count = std::min(2 * count, kMostSamples)) {
    const Stream::Draw draw = stream.draw(consecutive(at, std::min(count, data.size() - at)));
    const Batch batch = data.get(draw.indices, SampleRandom(0, draw.indices, draw.epochs));
    const torch::Tensor targets = batch.targets.defined() ? batch.targets.to(torch::kCPU) : batch.targets;
    const torch::Tensor counted = counted_targets(recipe.loss, targets);
    if (!counted.defined()) return std::nullopt;
    const torch::Tensor found = std::get<0>(at::_unique(targets.masked_select(counted).to(torch::kInt64)));
    for (int64_t i = 0; i < found.numel(); ++i) seen.classes.insert(found[i].item<int64_t>());
    seen.counted |= found.numel() > 0;
    if (seen.counted && seen.classes.size() >= classes) return seen;
    bytes += bytes_of(batch);
    if (bytes > kMostBytes) return seen;
  }
  seen.whole = true;
  return seen;
}

// A sample that cannot be read is for those to tell who learn from it.
std::optional<TargetsSeen> try_to_look(const Recipe& recipe, const Dataset& data, size_t classes) {
  try {
    return look_at_targets(recipe, data, classes);
  } catch (const std::exception& error) {
    log::debug("trainer", cat("the look at the targets failed: ", first_line(error)));
    return std::nullopt;
  }
}

// A share of the samples whose class is among the first K of K classes would be 1. "": there are enough.
std::string too_few_classes(const std::string& figure, Workbench& bench) {
  int64_t least = 0;
  if (!figure.starts_with("top") || !parse_integer(figure.substr(3), least)) return "";
  if (evaluation_kinds(bench).contains(figure)) return "";
  const int64_t classes = bench.data.train->info().classes;
  return cat("it needs more than ", least, " classes", classes > 0 ? cat(", and there are ", classes) : "");
}

void check_figure(const Recipe& recipe, Workbench& bench, const std::string& key, const std::string& figure) {
  if (figure == "loss" || bench.data.validation == nullptr) return;
  const FigureKinds kinds = evaluation_kinds(bench);
  if (kinds.contains(figure)) return;
  std::vector<std::string> names;
  for (const auto& [name, kind] : kinds) names.push_back(name);
  const std::string why = too_few_classes(figure, bench);
  fail_recipe(recipe, key, cat(quote(figure), " is not measured here", why.empty() ? "" : ": ", why),
              "one of " + join_choices(names));
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
  if (bench.task->makes_passes()) {
    fail_recipe(recipe, key,
                "needs the noise of gradients, and the task makes its passes itself, of which no part stands "
                "for the window",
                otherwise);
  }
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

void check_keys_of_own_task(const Recipe& recipe) {
  for (const KeyDifference& key : changed_keys(recipe, catalog())) {
    const bool of_names = key.path.starts_with("model.") || key.path.starts_with("loss.") ||
                          (key.path.starts_with("data.") && key.path != "data.shuffle") ||
                          key.path == "evaluation.metrics";
    if (!of_names) continue;
    fail_recipe(recipe, key.path,
                cat("is ", key.after,
                    ", and the program brings a model, a loss and data of its own, which it does "
                    "not reach"),
                "leave it out and do it in the program (freeze with requires_grad_(false), load weights with "
                "Trainer::load_weights), or run Trainer::from_recipe");
  }
}

void check_keys_of_own_optimizers(const Recipe& recipe) {
  for (const KeyDifference& key : changed_keys(recipe, catalog())) {
    const bool of_recipes = key.path.starts_with("optimizer.") && key.path != "optimizer.clip_norm";
    const bool of_others =
        key.path == "execution.shard" || (key.path == "batch.lr_rule" && key.after != "none");
    const bool as_written = key.path == "optimizer.lr" && recipe.optimizer.lr == 1;  // by such a run
    if (as_written || (!of_recipes && !of_others)) continue;
    fail_recipe(recipe, key.path,
                cat("is ", key.after, ", and the program brings optimizers of its own (",
                    "TrainerOptions::optimizers), which it does not reach"),
                "leave it out and give it to the optimizer where the program makes it");
  }
}

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

void check_targets(const Recipe& recipe, const Workbench& bench) {
  if (!bench.data.from_recipe) return;  // targets of a task of its own
  const auto check = [&](const char* key, const Dataset* data) {
    const std::optional<TargetsSeen> seen =
        data != nullptr ? try_to_look(recipe, *data, /*classes=*/1) : std::nullopt;
    if (!seen || !seen->whole || seen->counted) return;
    throw Error(ExitCode::kBadData, key,
                cat("none of the targets of its ", data->size(),
                    " samples counts: ", what_does_not_count(recipe.loss)),
                "give targets that count, or change loss.ignore_index or loss.class_weights");
  };
  check("data.train", bench.data.train);
  check("data.validation", bench.data.validation);
  check("data.test", bench.data.test);
}

namespace {

void tell_of_no_boxes(const Workbench& bench) {
  if (bench.data.validation == nullptr) return;
  const auto* const images = dynamic_cast<const DetectionDataset*>(&itself(*bench.data.validation));
  if (images == nullptr || images->images().boxes.most() > 0) return;
  log::warn("trainer",
            cat("none of the ", images->size(),
                " validation images has a box: their loss is the sum over nothing, "
                "and no figure of boxes is defined. Try: images with boxes, or data.validation.limit"));
}

}  // namespace

void tell_undefined_figures(const Recipe& recipe, const Workbench& bench) {
  tell_of_no_boxes(bench);
  if (!bench.data.from_recipe || bench.data.validation == nullptr || !recipe.evaluation.metrics) return;
  std::vector<std::string> areas;
  for (const std::string& metric : *recipe.evaluation.metrics) {
    if (metric.starts_with("roc_auc")) areas.push_back(metric);
  }
  if (areas.empty()) return;
  const std::optional<TargetsSeen> seen = try_to_look(recipe, *bench.data.validation, /*classes=*/2);
  if (!seen || !seen->whole || seen->classes.size() != 1) return;
  log::warn("trainer",
            cat(join(areas, " and "), ": the validation data has one class, ", *seen->classes.begin(),
                ", so there is no such area: no evaluation counts for patience, plateau or the best "
                "by it"));
}

void tell_unmeasured_metrics(const Recipe& recipe, Workbench& bench) {
  if (!bench.data.from_recipe || bench.data.validation == nullptr || !recipe.evaluation.metrics) return;
  for (const std::string& metric : *recipe.evaluation.metrics) {
    const std::string why = too_few_classes(metric, bench);
    if (!why.empty())
      log::warn("trainer", cat("evaluation.metrics: ", quote(metric), " is not measured: ", why));
  }
}

namespace {

void tell_idle_keys(const Recipe& recipe, const Workbench& bench) {
  const auto tell = [](const std::string& key, const std::string& value, const std::string& why) {
    log::warn("trainer", cat(key, " is ", value, " and changes nothing, since ", why,
                             ". Try: change that, or leave ", last_part(key), " out"));
  };
  for (const IdleKey& key : idle_keys(recipe, catalog())) tell(key.path, key.value, key.why);
  if (bench.data.validation == nullptr && recipe.evaluation.monitor != EvaluationRecipe().monitor)
    tell("evaluation.monitor", recipe.evaluation.monitor, "there are no validation data");
}

// Samples between two evaluations; nothing where the clock decides, or there are none.
std::optional<double> samples_between(const Interval& evaluations, int64_t dataset_size, int64_t effective) {
  switch (evaluations.unit) {
    case Interval::Unit::kEpochs: return evaluations.count * static_cast<double>(dataset_size);
    case Interval::Unit::kUpdates: return evaluations.count * static_cast<double>(effective);
    case Interval::Unit::kSamples: return evaluations.count;
    case Interval::Unit::kMinutes:
    case Interval::Unit::kNever: break;
  }
  return std::nullopt;
}

// What follows evaluations and sees none before the run is over.
void tell_of_no_evaluation(const Recipe& recipe, int64_t dataset_size, int64_t effective, int64_t samples) {
  const std::optional<double> every = samples_between(recipe.evaluation.every, dataset_size, effective);
  if (!every || *every < static_cast<double>(samples)) return;
  std::vector<std::string> followers;
  if (recipe.stop.patience) followers.emplace_back("stop.patience");
  if (plateau_of(recipe)) followers.push_back("schedule.name: " + recipe.schedule.shape.name);
  if (recipe.batch.adapts()) followers.emplace_back("batch.adapt");
  if (followers.empty()) return;
  log::warn("trainer", cat("no evaluation is due before the run ends, for ", join(followers, " and "),
                           " to go by: evaluation.every is ", recipe.evaluation.every.text(),
                           ", and the run has ", format_count(samples), " samples. Try: a shorter interval"));
}

// As where schedule.every is meant in epochs, which other programs count.
void tell_of_vanished_rate(const Recipe& recipe, const Schedule& schedule, int64_t updates,
                           double updates_of_epoch) {
  constexpr double kVanished = 1e-6;
  const int64_t half = updates / 2;
  const double left = schedule.factor(static_cast<double>(half));
  const bool in_steps = recipe.schedule.shape.name == "step";
  if (!in_steps || half < schedule.warmup_updates() || left >= kVanished) return;
  log::warn("optim", cat("schedule: at update ", format_count(half), " of ", format_count(updates),
                         " the learning rate has come down to ", brief(left),
                         " of what it is set to, and hardly anything is learned from there on: "
                         "schedule.every counts updates, of which an epoch has ",
                         brief(updates_of_epoch, 3), ". Try: a larger schedule.every or schedule.factor"));
}

// Likewise of `restarts`: a rate that goes up and down many times in each of several epochs is hardly meant.
void tell_of_short_periods(const Recipe& recipe, int64_t updates, double updates_of_epoch) {
  constexpr double kMany = 10;
  const ScheduleRecipe& schedule = recipe.schedule;
  if (schedule.shape.name != "restarts" || static_cast<double>(updates) < 2 * updates_of_epoch) return;
  const Parameters p(schedule.shape, find_schedule(schedule.shape.name).spec);
  const int64_t every = p.integer("every");
  if (p.integer("growth") > 1 || kMany * static_cast<double>(every) > updates_of_epoch) return;
  log::warn("optim",
            cat("schedule.every is ", every, ": the learning rate begins anew ",
                brief(updates_of_epoch / static_cast<double>(every), 3), " times in each epoch, which has ",
                brief(updates_of_epoch, 3), " updates, in which schedule.every counts. Try: a larger one"));
}

}  // namespace

void tell_unreached(const Recipe& recipe, const Workbench& bench, const BatchPlan& plan) {
  tell_idle_keys(recipe, bench);
  const BatchStages stages = stages_of(recipe, bench.data.train->size(), plan.effective_batch);
  const Horizon horizon = horizon_of(recipe, bench.data.train->size(), stages);
  if (!horizon.samples) return;
  tell_of_no_evaluation(recipe, bench.data.train->size(), stages.first(), *horizon.samples);
  const Schedule schedule(recipe.schedule, horizon.updates, stages.first());
  const int64_t warmup = schedule.warmup_updates(), updates = *horizon.updates;
  const double updates_of_epoch =
      static_cast<double>(bench.data.train->size()) / static_cast<double>(stages.first());
  tell_of_vanished_rate(recipe, schedule, updates, updates_of_epoch);
  tell_of_short_periods(recipe, updates, updates_of_epoch);
  if (warmup > 1 && warmup >= updates) {
    log::warn("optim", cat("schedule.warmup takes ", format_count(warmup), " updates, and the run has ",
                           format_count(updates), ": the learning rate comes to ",
                           format_percent(static_cast<double>(updates) / static_cast<double>(warmup)),
                           " of what it is set to, at the end. Try: a part of the run, such as 5 %"));
  }
  const int64_t most_updates = updates + (horizon.last_window > 0 ? 1 : 0);
  for (const ParameterGroup& group : bench.optimizer->groups()) {
    if (recipe.batch.changes() || group.parameters.empty() || group.every <= most_updates) continue;
    log::warn("optim",
              cat("optimizer.groups: ", group.name, " first learns in update ", format_count(group.every),
                  ", and the run has ", format_count(most_updates),
                  ": it stays as it is. Try: a smaller `every`; model.freeze, where it is meant to stay"));
  }
  if (const auto& trace = recipe.execution.trace;
      trace && !recipe.batch.changes() && trace->at(0) > most_updates) {
    log::warn("trainer", cat("execution.trace begins at update ", format_count(trace->at(0)),
                             ", and the run has ", format_count(most_updates), ": nothing is traced"));
  }
  if (!recipe.average.half_life) return;
  constexpr double kMuch = 0.1;
  const double left =
      std::exp2(-static_cast<double>(*horizon.samples) / static_cast<double>(*recipe.average.half_life));
  if (left > kMuch) {
    log::warn("optim", cat("average.half_life is ", format_count(*recipe.average.half_life),
                           " samples, and the run has ", format_count(*horizon.samples),
                           ": of the averaged weights, which are evaluated, ", format_percent(left),
                           " are still those that it begins with. Try: a tenth of the run or less"));
  }
}

namespace {

void check_gathered_of(Workbench& bench, const Dataset* data, const std::string& split) {
  if (data == nullptr || data->size() == 0) return;
  const Gathering gathering = gathered_by_metrics(bench, *data, split);
  if (gathering.at_once() == 0) return;
  const MemoryStatement memory = memory_statement(bench);
  const bool on_cpu = bench.device->torch_device().is_cpu();
  const int64_t free = on_cpu ? memory.budget - memory.floor()
                              : tightest(memory_bounds(ResourceLimits::of_this_process())).available_bytes();
  if (gathering.at_once() <= free) return;
  throw too_much_gathered(gathering, on_cpu ? cat("and ", format_bytes(std::max<int64_t>(0, free)),
                                                  " of the budget of ", format_bytes(memory.budget),
                                                  " are left beside the model, its optimizer and the data")
                                            : cat("and the machine has ", format_bytes(free), " for it"));
}

}  // namespace

void check_gathered(const Recipe& recipe, Workbench& bench) {
  // What a detector keeps of a sample depends on what it finds there.
  if (recipe.loss.name == detection_row().spec.name) return;
  check_gathered_of(bench, bench.data.validation, "validation");
  check_gathered_of(bench, bench.data.test, "test");
}

void check_plan(const Recipe& recipe, const Workbench& bench, const BatchPlan& plan) {
  check_windows(recipe, bench, plan);
  check_statistics(recipe, bench, plan);
}

}  // namespace autotrain
