#include "trainer/run.h"

#include <algorithm>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/units.h"
#include "checkpoint/safetensors.h"
#include "device/failure.h"
#include "optim/lr_rules.h"
#include "plan/cut.h"
#include "plan/plan_json.h"
#include "plan/planner.h"
#include "recipe/checks.h"
#include "recipe/compare.h"
#include "recipe/reader.h"
#include "trainer/advice.h"
#include "trainer/catalog.h"
#include "trainer/evaluator.h"
#include "trainer/identity.h"
#include "trainer/out_of_memory.h"
#include "trainer/run_report.h"
#include "trainer/search_process.h"
#include "trainer/start_table.h"

namespace autotrain {
namespace {

// The folder is another run's to go on with as soon as this one has ended, however it ended.
struct UnlockAtEnd {
  const std::unique_ptr<RunFolder>& folder;
  ~UnlockAtEnd() {
    if (folder) folder->unlock();
  }
};

bool adaptive(const std::string& optimizer) {
  for (const OptimizerRow& row : optimizer_table()) {
    if (row.spec.name == optimizer) return row.adaptive;
  }
  return false;
}

void log_learning_rate(const Recipe& recipe, const BatchPlan& plan) {
  const LearningRatePlan& lr = plan.lr;
  log::info("optim", cat("learning rate ", brief(lr.base), " → ", brief(lr.scaled), " (", lr.rule, " rule, ",
                         plan.effective_batch, " ÷ ", lr.reference_batch, " samples)"));
  const bool scaled = plan.effective_batch != lr.reference_batch;
  if (scaled && lr.rule == "linear" && adaptive(recipe.optimizer.algorithm.name)) {
    log::info("optim", cat("for ", recipe.optimizer.algorithm.name,
                           " batch.lr_rule: sqrt is better founded: ", find_lr_rule("sqrt").spec.sentence));
  }
}

void log_batch_norm(const BatchPlan& plan, const Parts& parts) {
  if (plan.window == 1 || !has_batch_norm(parts.task->module())) return;
  log::warn("plan", cat("batch normalisation takes its statistics from ", plan.micro_batch,
                        " samples at a time, not from ", plan.effective_batch,
                        ": this is not the big batch. A larger execution.memory.budget, a smaller "
                        "batch.effective or a model without batch normalisation makes it exact"));
}

// Every key that decides memory, with its value, a line each.
std::string memory_keys(const Recipe& recipe) {
  std::string text;
  for (const KeyValue& key : key_values(recipe, catalog())) {
    if (decides_memory(key.decides)) text += cat(key.path, ": ", key.value, "\n");
  }
  return text;
}

double epochs_of(const RunState& state, const Parts* parts) {
  return parts ? static_cast<double>(state.cursor) / static_cast<double>(parts->data.train->size()) : 0;
}

}  // namespace

Trainer::Run::Run(Recipe recipe, Build build, TrainerOptions options)
    : recipe_(std::move(recipe)),
      options_(std::move(options)),
      observer_(options_.observer),
      build_(std::move(build)) {
  check_recipe(recipe_, catalog());
  if (!options_.search_apart) parts();
}

std::unique_ptr<Trainer::Run> Trainer::Run::of_task(Recipe recipe, std::unique_ptr<Task> task, RunData data,
                                                    TrainerOptions options) {
  options.search_apart = false;
  task = checked_task(std::move(task));
  const auto build = [&](const Recipe& r,
                         std::optional<ResolvedBudget> settled) {  // called at once, and only once
    return std::make_unique<Parts>(r, open_run_device(r, std::move(settled)), std::move(data),
                                   std::move(task));
  };
  return std::unique_ptr<Run>(new Run(std::move(recipe), build, std::move(options)));
}

std::unique_ptr<Trainer::Run> Trainer::Run::of_recipe(Recipe recipe, TrainerOptions options) {
  const auto build = [](const Recipe& r, std::optional<ResolvedBudget> settled) {
    auto device = open_run_device(r, std::move(settled));
    RunData data = within_budget(*device, [&] { return load_data(r, *device); });
    auto task = within_budget(*device, [&] { return build_task(r, *data.train); });
    return std::make_unique<Parts>(r, std::move(device), std::move(data), std::move(task));
  };
  return std::unique_ptr<Run>(new Run(std::move(recipe), build, std::move(options)));
}

// A plan that was made elsewhere has settled the budget.
Parts& Trainer::Run::parts() {
  if (parts_) return *parts_;
  parts_ = build_(recipe_, plan_ ? std::optional(ResolvedBudget{plan_->budget_bytes, plan_->budget_source})
                                 : std::nullopt);
  if (recipe_.stop.patience && parts_->data.validation == nullptr) {
    fail_recipe(recipe_, "stop.patience", "needs an evaluation to wait for", "give validation data");
  }
  return *parts_;
}

void Trainer::Run::open_folder() {
  if (folder_ || !options_.write_files) return;
  folder_ = std::make_unique<RunFolder>(recipe_, options_);
  if (options_.resume) resume_point_ = find_resume_point(*folder_, recipe_, options_.allow_change);
}

// Whether the checkpoint's plan can be executed here as it was there.
bool Trainer::Run::stored_plan_holds() {
  if (!resume_point_->keep_plan) return false;
  const BatchPlan& stored = resume_point_->saved.plan;
  const Parts& parts = this->parts();
  const double fill =
      static_cast<double>(stored.peak_bytes) / static_cast<double>(parts.device->budget_bytes());
  std::string changed;
  if (stored.device_name != parts.device->name()) changed = "the device is " + parts.device->name();
  if (stored.precision != parts.precision) changed = "the precision is " + to_string(parts.precision);
  if (stored.memory_format != parts.memory_format)
    changed = "the memory format is " + to_string(parts.memory_format);
  if (fill > std::max(stored.fill, recipe_.execution.memory.target_high))
    changed = "the budget is only " + format_bytes(parts.device->budget_bytes());
  if (changed.empty()) return true;
  log::warn("trainer", cat(changed,
                           ", unlike where the checkpoint was written: planning anew. The run goes on "
                           "with the same effective batch, equal up to rounding"));
  return false;
}

// A plan that a checkpoint has is looked at first, on the device; after that there can be no other process.
bool Trainer::Run::searches_apart() const {
  return options_.search_apart && parts_ == nullptr && !(resume_point_ && resume_point_->keep_plan);
}

BatchPlan Trainer::Run::make_plan() {
  if (resume_point_ && stored_plan_holds()) {
    check_monitor();
    BatchPlan plan = resume_point_->saved.plan;
    plan.lr = learning_rate_plan(recipe_, plan.effective_batch);  // which a resume may change
    return plan;
  }
  Recipe recipe = recipe_;
  // Samples per update are what was learned with; only how they are cut is found anew.
  if (resume_point_ && !recipe.batch.effective)
    recipe.batch.effective = resume_point_->saved.plan.effective_batch;
  observer_.on_search_start(recipe);
  const auto make = [&](const std::vector<ProbeRecord>& known, RunObserver& observer) {
    return search(recipe, known, observer);
  };
  BatchPlan plan = searches_apart() ? plan_in_own_process(make, observer_) : make({}, observer_);
  plan.origin = plan_origins(recipe_);
  return plan;
}

// Looks for the plan here.
BatchPlan Trainer::Run::search(const Recipe& recipe, std::vector<ProbeRecord> known, RunObserver& observer) {
  check_monitor();
  load_initial_weights();
  Planner planner({.recipe = recipe,
                   .precision = parts().precision,
                   .has_batch_norm = has_batch_norm(parts().task->module()),
                   .fresh = options_.fresh_plan,
                   .memory_keys = memory_keys(recipe),
                   .last_window =
                       [&](int64_t effective) {
                         return last_window_samples(recipe, parts().data.train->size(), effective);
                       },
                   .known = std::move(known)},
                  parts().workbench(),
                  {.on_start = [&](int64_t micro_batch) { observer.on_trial(micro_batch); },
                   .on_end = [&](const ProbeRecord& probe) { observer.on_probe(probe); }});
  BatchPlan plan = planner.plan();
  check_last_window(plan);
  return plan;
}

const BatchPlan& Trainer::Run::plan() {
  if (!plan_) {
    if (options_.resume) open_folder();
    plan_ = make_plan();
  }
  return *plan_;
}

// Of a model that the recipe names; a checkpoint has all weights itself.
void Trainer::Run::load_initial_weights() {
  if (std::exchange(weights_loaded_, true)) return;
  if (!recipe_.weights || resume_point_ || !parts().data.from_recipe) return;
  read_safetensors_into(*recipe_.weights, model_tensors(parts().task->module()),
                        "give model.weights a file of the same model, for as many classes");
  parts().average.restart();
}

FigureKinds Trainer::Run::figure_kinds() {
  return evaluation_kinds(parts().workbench());
}

// One small evaluation tells which figures there are, before hours are spent.
void Trainer::Run::check_monitor() {
  const std::string& monitor = recipe_.evaluation.monitor;
  if (monitor == "loss" || parts().data.validation == nullptr) return;
  const FigureKinds kinds = figure_kinds();
  if (kinds.contains(monitor)) return;
  std::vector<std::string> names;
  for (const auto& [name, kind] : kinds) names.push_back(name);
  fail_recipe(recipe_, "evaluation.monitor", quote(monitor) + " is not measured here",
              "one of " + join_choices(names));
}

void Trainer::Run::check_last_window(const BatchPlan& plan) {
  const int64_t samples = horizon_of(recipe_, parts().data.train->size(), plan.effective_batch).last_window;
  if (samples == 0 || !has_batch_norm(parts().task->module())) return;
  if (remainder_of(samples / plan.world_size, plan.micro_batch) > 1) return;
  fail_recipe(recipe_, "stop.last",
              cat("the run ends with an update of ", samples,
                  " samples, whose last micro-batch has one sample; "
                  "batch normalisation cannot learn from it"),
              "set stop.last: drop, or change execution.micro_batch");
}

void Trainer::Run::resume() {
  if (!resume_point_) return;
  load_tensors(folder_->checkpoints(), resume_point_->update, parts());
  state_ = resume_point_->saved.state;
  // What lies beyond it was broken, or half written.
  folder_->checkpoints().prune(resume_point_->update, recipe_.checkpoint.keep, state_.best_update);
  const Identity now = identity_of(*parts().device, *plan_);
  const std::string how = resume_point_->same_recipe ? exactness(resume_point_->saved.identity, now)
                                                     : "with another recipe than it was begun with";
  log::info("trainer", cat("resumed at update ", state_.updates, " from ", folder_->path().string(),
                           "; the continuation is ", how));
}

void Trainer::Run::announce() {
  log::info("plan", summary_line(*plan_));
  log_learning_rate(recipe_, *plan_);
  log_batch_norm(*plan_, parts());
  const Horizon horizon = horizon_of(recipe_, parts().data.train->size(), plan_->effective_batch);
  observer_.on_start(*plan_, start_table(recipe_, *plan_, parts(), horizon));
  if (!folder_) return;
  folder_->save_recipe(recipe_);
  folder_->write_json("plan.json", plan_to_json(*plan_));
  // Rows of a run that was killed before its first checkpoint belong to nothing.
  folder_->open_metrics(options_.resume ? std::optional(state_.metrics_bytes) : std::nullopt);
  if (recipe_.report.tensorboard) folder_->open_tensorboard(state_.updates);
}

void Trainer::Run::start_telemetry() {
  if (recipe_.execution.telemetry == 0 || !folder_) return;
  std::vector<std::unique_ptr<TelemetrySource>> sources;
  sources.push_back(process_telemetry());
  if (auto gpu = gpu_telemetry(parts().device->torch_device())) sources.push_back(std::move(gpu));
  telemetry_ = std::make_unique<TelemetrySampler>(std::move(sources), folder_->path() / "telemetry.jsonl",
                                                  std::max(0.01, recipe_.execution.telemetry),
                                                  steady_seconds() - state_.seconds);
}

void Trainer::Run::train(Summary& summary) {
  // A trial starts from clean memory, so the run does too: between blocks that other sizes left, the same
  // tensors would take more.
  parts().device->memory().empty_cache();
  parts().device->memory().reset_peak();
  start_telemetry();
  TrainingLoop loop({.recipe = recipe_,
                     .plan = *plan_,
                     .parts = parts(),
                     .state = state_,
                     .callbacks = callbacks,
                     .folder = folder_.get(),
                     .telemetry = telemetry_.get(),
                     .saved = resume_point_.has_value(),
                     .observer = &observer_});
  try {
    summary.stopped_by = loop.run();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    if (classify_failure(error) == Failure::kOther) throw;
    throw out_of_memory(parts(), *plan_, error, parts().device->memory().last_refusal(), "training",
                        plan_->micro_batch, "");
  }
}

void Trainer::Run::describe_end(Summary& summary) {
  summary.updates = state_.updates;
  summary.samples = state_.cursor;
  summary.epochs = epochs_of(state_, parts_.get());
  summary.seconds = state_.seconds;
  summary.final = state_.last_figures;
  summary.best = state_.best_figures;
  summary.figure_kinds = state_.figure_kinds;
  summary.tables = state_.last_tables;
  if (state_.best_update >= 0) summary.best["update"] = static_cast<double>(state_.best_update);
  summary.peak_bytes = state_.peak_bytes;
  if (state_.training_seconds > 0) {
    const auto waited = state_.activity_seconds.find("data_wait");
    summary.samples_per_second = static_cast<double>(state_.cursor) / state_.training_seconds;
    summary.data_wait_fraction = std::min(
        1.0, (waited == state_.activity_seconds.end() ? 0 : waited->second) / state_.training_seconds);
  }
  summary.activity_seconds = state_.activity_seconds;
  if (telemetry_) summary.telemetry = telemetry_->means();
  summary.oom_recoveries = state_.recoveries;
  summary.skipped_updates = state_.skipped;
  summary.rollbacks = state_.rollbacks;
  summary.bad_samples = 0;
  if (parts_) {
    for (const SkippingDataset* dataset : parts_->data.skipping) summary.bad_samples += dataset->count();
    summary.loader_workers = parts_->loader.prefetch > 0 ? parts_->loader.workers : 0;
  }
  summary.checkpoint_stall_seconds = state_.checkpoint_stall_seconds;
  summary.folder = folder_ ? folder_->path().string() : "";
}

void Trainer::Run::write_summary(Summary& summary, const std::string& status, ExitCode code,
                                 const std::string& error) {
  describe_end(summary);
  telemetry_.reset();  // whose file is whole before it is drawn
  summary.status = status;
  summary.exit_code = static_cast<int>(code);
  summary.error = error;
  if (!error.empty()) summary.stopped_by = status == "failed" ? "error" : "signal";
  if (!folder_) return;
  try {
    folder_->flush_metrics();
    folder_->write_json("summary.json", summary_to_json(summary));
  } catch (const Error& problem) {
    if (error.empty()) throw;
    log::warn("trainer", problem.what());  // why the run failed is what its user must see
  }
  draw_report();
}

// Nothing of the run is at stake.
void Trainer::Run::draw_report() const {
  try {
    draw_run(folder_->path(), recipe_.report);
  } catch (const std::exception& problem) {
    log::warn("report", problem.what());
  }
}

Summary Trainer::Run::fit() {
  Summary summary;
  const UnlockAtEnd unlock{folder_};
  try {
    open_folder();
    plan();
    load_initial_weights();
    resume();
    announce();
    train(summary);
  } catch (const Error& error) {
    const bool interrupted = error.code() == ExitCode::kInterrupted;
    write_summary(summary, interrupted ? "interrupted" : "failed", error.code(), error.what());
    throw;
  } catch (const std::exception& error) {
    write_summary(summary, "failed", ExitCode::kInternal, error.what());
    throw;
  }
  const bool interrupted = summary.stopped_by == "signal";
  write_summary(summary, interrupted ? "interrupted" : "completed",
                interrupted ? ExitCode::kInterrupted : ExitCode::kDone, "");
  observer_.on_finish(summary, *plan_, advice_for(recipe_, *plan_, parts(), summary));
  return summary;
}

}  // namespace autotrain
