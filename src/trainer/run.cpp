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

void log_learning_rate(const Recipe& recipe, const BatchPlan& plan) {
  const LearningRatePlan& lr = plan.lr;
  log::info("optim", cat("learning rate ", brief(lr.base), " → ", brief(lr.scaled), " (", lr.rule, " rule, ",
                         plan.effective_batch, " ÷ ", lr.reference_batch, " samples)"));
  const bool scaled = plan.effective_batch != lr.reference_batch;
  const OptimizerRow& optimizer = find_optimizer(recipe.optimizer.algorithm.name);
  if (scaled && optimizer.adaptive && find_lr_rule(lr.rule).optimizers == LrRule::For::kPlain) {
    const LrRule& better = lr_rule_for(LrRule::For::kAdaptive);
    log::info("optim", cat("for ", optimizer.spec.name, " batch.lr_rule: ", better.spec.name,
                           " is better founded: ", better.spec.sentence));
  }
}

void log_batch_norm(const BatchPlan& plan, const Workbench& bench) {
  if (plan.window == 1 || !has_batch_norm(bench.task->module())) return;
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

// The run does not depend on its report, so a report that cannot be drawn is a warning.
void draw_report(const std::filesystem::path& folder, const ReportRecipe& what) {
  try {
    draw_run(folder, what);
  } catch (const std::exception& problem) {
    log::warn("report", problem.what());
  }
}

}  // namespace

Trainer::Run::Run(Recipe recipe, Build build, TrainerOptions options)
    : recipe_(std::move(recipe)),
      options_(std::move(options)),
      observer_(options_.observer),
      build_(std::move(build)) {
  check_recipe(recipe_, catalog());
  if (!options_.search_apart) bench();
}

std::unique_ptr<Trainer::Run> Trainer::Run::of_task(Recipe recipe, std::unique_ptr<Task> task, RunData data,
                                                    TrainerOptions options) {
  options.search_apart = false;
  task = checked_task(std::move(task));
  // It is called at once, and only once, so it may take data and task away.
  const auto build = [&](const Recipe& r, std::optional<ResolvedBudget> settled) {
    return assemble(r, {open_run_device(r, std::move(settled)), std::move(data), std::move(task)});
  };
  return std::unique_ptr<Run>(new Run(std::move(recipe), build, std::move(options)));
}

std::unique_ptr<Trainer::Run> Trainer::Run::of_recipe(Recipe recipe, TrainerOptions options) {
  const auto build = [](const Recipe& r, std::optional<ResolvedBudget> settled) {
    return assemble(r, load_materials(r, std::move(settled)));
  };
  return std::unique_ptr<Run>(new Run(std::move(recipe), build, std::move(options)));
}

// A plan that was made elsewhere has settled the budget.
Workbench& Trainer::Run::bench() {
  if (bench_) return *bench_;
  bench_ = build_(recipe_, plan_ ? std::optional(ResolvedBudget{plan_->budget_bytes, plan_->budget_source})
                                 : std::nullopt);
  if (recipe_.stop.patience && bench_->data.validation == nullptr) {
    fail_recipe(recipe_, "stop.patience", "needs an evaluation to wait for", "give validation data");
  }
  return *bench_;
}

Trainer::Run::Place& Trainer::Run::place() {
  if (place_) return *place_;
  Place place;
  if (options_.write_files) place.folder = std::make_unique<RunFolder>(recipe_, options_);
  if (place.folder && options_.resume) {
    place.held_a_summary = std::filesystem::exists(place.folder->path() / "summary.json");
    place.resume_point = find_resume_point(*place.folder, recipe_, options_.allow_change);
  }
  return place_.emplace(std::move(place));
}

// A plan alone needs no folder but to see what a resume goes on from.
const std::optional<ResumePoint>& Trainer::Run::resume_point() {
  static const std::optional<ResumePoint> kNone;
  return options_.resume ? place().resume_point : kNone;
}

// Whether the checkpoint's plan can be executed here as it was there.
bool Trainer::Run::stored_plan_holds() {
  if (!resume_point()->keep_plan) return false;
  const BatchPlan& stored = resume_point()->saved.plan;
  const Workbench& bench = this->bench();
  const double fill =
      static_cast<double>(stored.peak_bytes) / static_cast<double>(bench.device->budget_bytes());
  std::string changed;
  if (stored.device_name != bench.device->name()) changed = "the device is " + bench.device->name();
  if (stored.precision != bench.precision) changed = "the precision is " + to_string(bench.precision);
  if (stored.memory_format != bench.memory_format)
    changed = "the memory format is " + to_string(bench.memory_format);
  if (fill > std::max(stored.fill, recipe_.execution.memory.target_high))
    changed = "the budget is only " + format_bytes(bench.device->budget_bytes());
  if (changed.empty()) return true;
  log::warn("trainer", cat(changed,
                           ", unlike where the checkpoint was written: planning anew. The run goes on "
                           "with the same effective batch, equal up to rounding"));
  return false;
}

// A plan that a checkpoint has is looked at first, on the device; after that there can be no other process.
bool Trainer::Run::searches_apart() {
  const std::optional<ResumePoint>& from = resume_point();
  return options_.search_apart && bench_ == nullptr && !(from && from->keep_plan);
}

BatchPlan Trainer::Run::make_plan() {
  const std::optional<ResumePoint>& from = resume_point();
  if (from && stored_plan_holds()) {
    check_monitor();
    BatchPlan plan = from->saved.plan;
    plan.lr = learning_rate_plan(recipe_, plan.effective_batch);  // which a resume may change
    return plan;
  }
  Recipe recipe = recipe_;
  // Samples per update are what was learned with; only how they are cut is found anew.
  if (from && !recipe.batch.effective) recipe.batch.effective = from->saved.plan.effective_batch;
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
                   .fresh = options_.fresh_plan,
                   .memory_keys = memory_keys(recipe),
                   .last_window =
                       [&](int64_t effective) {
                         return last_window_samples(recipe, bench().data.train->size(), effective);
                       },
                   .known = std::move(known)},
                  bench(),
                  {.on_start = [&](int64_t micro_batch) { observer.on_trial(micro_batch); },
                   .on_end = [&](const ProbeRecord& probe) { observer.on_probe(probe); }});
  BatchPlan plan = planner.plan();
  check_last_window(plan);
  return plan;
}

BatchPlan& Trainer::Run::made_plan() {
  if (!plan_) plan_ = make_plan();
  return *plan_;
}

const BatchPlan& Trainer::Run::plan() {
  return made_plan();
}

// A recipe gives initial weights to a model that it names. A resume needs none: a checkpoint has all weights.
void Trainer::Run::load_initial_weights() {
  if (std::exchange(weights_loaded_, true)) return;
  if (!recipe_.weights || (place_ && place_->resume_point) || !bench().data.from_recipe) return;
  read_safetensors_into(*recipe_.weights, model_tensors(bench().task->module()),
                        "give model.weights a file of the same model, for as many classes");
  bench().average.restart();
}

FigureKinds Trainer::Run::figure_kinds() {
  return evaluation_kinds(bench());
}

// One small evaluation tells which figures there are, before hours are spent.
void Trainer::Run::check_monitor() {
  const std::string& monitor = recipe_.evaluation.monitor;
  if (monitor == "loss" || bench().data.validation == nullptr) return;
  const FigureKinds kinds = figure_kinds();
  if (kinds.contains(monitor)) return;
  std::vector<std::string> names;
  for (const auto& [name, kind] : kinds) names.push_back(name);
  fail_recipe(recipe_, "evaluation.monitor", quote(monitor) + " is not measured here",
              "one of " + join_choices(names));
}

void Trainer::Run::check_last_window(const BatchPlan& plan) {
  const int64_t samples = horizon_of(recipe_, bench().data.train->size(), plan.effective_batch).last_window;
  if (samples == 0 || !has_batch_norm(bench().task->module())) return;
  if (remainder_of(samples / plan.world_size, plan.micro_batch) > 1) return;
  fail_recipe(recipe_, "stop.last",
              cat("the run ends with an update of ", samples,
                  " samples, whose last micro-batch has one sample; "
                  "batch normalisation cannot learn from it"),
              "set stop.last: drop, or change execution.micro_batch");
}

// The state to begin with; tensors are a checkpoint's where there is one.
RunState Trainer::Run::restored_state() {
  if (!place().resume_point) return {};
  const ResumePoint& from = *place().resume_point;
  RunFolder& folder = *place().folder;
  load_tensors(folder.checkpoints(), from.update, bench());
  const RunState state = from.saved.state;
  // Checkpoints of later updates are broken or half written, or this one would not be the newest.
  folder.checkpoints().prune(from.update, recipe_.checkpoint.keep, state.position.best_update);
  const Identity now = identity_of(*bench().device, plan());
  const std::string how =
      from.same_recipe ? exactness(from.saved.identity, now) : "with another recipe than it was begun with";
  log::info("trainer", cat("resumed at update ", state.position.updates, " from ", folder.path().string(),
                           "; the continuation is ", how));
  return state;
}

void Trainer::Run::tell_the_start() {
  log::info("plan", summary_line(plan()));
  log_learning_rate(recipe_, plan());
  log_batch_norm(plan(), bench());
  const Horizon horizon = horizon_of(recipe_, bench().data.train->size(), plan().effective_batch);
  observer_.on_start(plan(), start_table(recipe_, plan(), bench(), horizon));
}

// Rows of a run that was killed before its first checkpoint belong to nothing: they are cut off.
void Trainer::Run::begin_files(const RunState& state) {
  RunFolder& folder = *place().folder;
  folder.save_recipe(recipe_);
  folder.write_json("plan.json", plan_to_json(plan()));
  folder.open_metrics(options_.resume ? std::optional(state.position.metrics_bytes) : std::nullopt);
}

std::unique_ptr<TelemetrySampler> Trainer::Run::start_telemetry(const RunState& state) {
  if (recipe_.execution.telemetry == 0 || !place().folder) return nullptr;
  std::vector<std::unique_ptr<TelemetrySource>> sources;
  sources.push_back(process_telemetry());
  if (auto gpu = gpu_telemetry(bench().device->torch_device())) sources.push_back(std::move(gpu));
  return std::make_unique<TelemetrySampler>(std::move(sources), place().folder->path() / "telemetry.jsonl",
                                            std::max(0.01, recipe_.execution.telemetry),
                                            steady_seconds() - state.totals.seconds);
}

void Trainer::Run::train(Reached& reached) {
  RunFolder* const folder = place().folder.get();
  RunState& state = reached.state.emplace(restored_state());
  tell_the_start();
  Followers followers;
  std::optional<TensorBoardFollower> tensorboard;
  if (folder != nullptr) begin_files(state);
  // A trial starts from clean memory, so the run does too: between blocks that other sizes left, the same
  // tensors would take more.
  bench().device->memory().empty_cache();
  bench().device->memory().reset_peak();
  reached.telemetry = start_telemetry(state);
  if (reached.telemetry) followers.add(*reached.telemetry);
  if (folder != nullptr) {
    followers.add(*folder);
    if (recipe_.report.tensorboard)
      followers.add(tensorboard.emplace(folder->path(), state.position.updates));
  }
  followers.add(observer_);
  followers.add(callbacks);
  Session session{.recipe = recipe_,
                  .plan = made_plan(),
                  .bench = bench(),
                  .state = state,
                  .folder = folder,
                  .followers = followers};
  try {
    reached.stopped_by = TrainingLoop(session, callbacks, /*saved=*/place().resume_point.has_value()).run();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    if (classify_failure(error) == Failure::kOther) throw;
    throw out_of_memory(bench(), plan(), error, bench().device->memory().last_refusal(), "training",
                        plan().micro_batch, "");
  }
}

Summary Trainer::Run::summarise(const Reached& reached, RunStatus status, ExitCode code,
                                const std::string& error) {
  const auto [position, totals] = reached.state.value_or(RunState());
  Summary summary{.status = status,
                  .exit_code = static_cast<int>(code),
                  .error = error,
                  .stopped_by = reached.stopped_by,
                  .updates = position.updates,
                  .samples = position.cursor,
                  .seconds = totals.seconds,
                  .final = position.last_figures,
                  .best = position.best_figures,
                  .figure_kinds = position.figure_kinds,
                  .tables = position.last_tables,
                  .peak_bytes = totals.peak_bytes,
                  .oom_recoveries = totals.recoveries,
                  .skipped_updates = totals.skipped,
                  .rollbacks = totals.rollbacks,
                  .checkpoint_stall_seconds = totals.checkpoint_stall_seconds,
                  .activity_seconds = totals.activity_seconds,
                  .folder = place_ && place_->folder ? place_->folder->path().string() : ""};
  if (!error.empty())
    summary.stopped_by = status == RunStatus::kFailed ? StopReason::kError : StopReason::kSignal;
  if (position.best_update >= 0) summary.best["update"] = static_cast<double>(position.best_update);
  if (totals.training_seconds > 0) {
    const auto waited = totals.activity_seconds.find("data_wait");
    const double waited_seconds = waited == totals.activity_seconds.end() ? 0 : waited->second;
    summary.samples_per_second = static_cast<double>(position.cursor) / totals.training_seconds;
    summary.data_wait_fraction = std::min(1.0, waited_seconds / totals.training_seconds);
  }
  if (reached.telemetry) summary.telemetry = reached.telemetry->means();
  if (bench_) {
    summary.epochs = static_cast<double>(position.cursor) / static_cast<double>(bench_->data.train->size());
    for (const SkippingDataset* dataset : bench_->data.skipping) summary.bad_samples += dataset->count();
    summary.loader_workers = bench_->loader.prefetch > 0 ? bench_->loader.workers : 0;
  }
  return summary;
}

// Summary and report. Why the run failed is what its user must see, whatever else fails now.
void Trainer::Run::write_end(const Summary& summary) {
  if (!place_ || !place_->folder) return;
  RunFolder& folder = *place_->folder;
  try {
    folder.flush();
    folder.write_json("summary.json", summary_to_json(summary));
  } catch (const Error& problem) {
    if (summary.error.empty()) throw;
    log::warn("trainer", problem.what());
  }
  draw_report(folder.path(), recipe_.report);
}

Summary Trainer::Run::fit() {
  if (std::exchange(fitted_, true))
    throw Error(ExitCode::kUsage, "Trainer::fit", "was called before",
                "make another trainer: each is one run");
  Reached reached;
  const auto end = [&](RunStatus status, ExitCode code, const std::string& error) {
    Summary summary = summarise(reached, status, code, error);
    reached.telemetry.reset();  // its file is whole before it is drawn
    // A resume that ended before it began leaves what the folder says of the run.
    const bool keeps = !reached.state && place_ && place_->held_a_summary;
    if (!keeps) write_end(summary);
    return summary;
  };
  // The folder is another run's to go on with as soon as this one has ended, however it ended.
  const struct UnlockAtEnd {
    const std::optional<Place>& place;
    ~UnlockAtEnd() {
      if (place && place->folder) place->folder->unlock();
    }
  } unlock{place_};
  try {
    place();
    plan();
    load_initial_weights();
    train(reached);
  } catch (const Error& error) {
    const bool interrupted = error.code() == ExitCode::kInterrupted;
    end(interrupted ? RunStatus::kInterrupted : RunStatus::kFailed, error.code(), error.what());
    throw;
  } catch (const std::exception& error) {
    end(RunStatus::kFailed, ExitCode::kInternal, error.what());
    throw;
  }
  const bool interrupted = reached.stopped_by == StopReason::kSignal;
  const Summary summary = end(interrupted ? RunStatus::kInterrupted : RunStatus::kCompleted,
                              interrupted ? ExitCode::kInterrupted : ExitCode::kDone, "");
  observer_.on_finish(summary, plan(), advice_for(recipe_, plan(), bench(), summary));
  return summary;
}

}  // namespace autotrain
