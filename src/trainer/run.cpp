#include "trainer/run.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/full_disk.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"
#include "checkpoint/finite_weights.h"
#include "checkpoint/safetensors.h"
#include "comm/launch.h"
#include "data/names.h"
#include "device/device_error.h"
#include "device/failure.h"
#include "loop/disk_space.h"
#include "loop/evaluator.h"
#include "loop/out_of_memory.h"
#include "loop/requeue.h"
#include "model/compressed_file.h"
#include "model/initial_weights.h"
#include "optim/schedule.h"
#include "plan/cut.h"
#include "plan/plan_enums.h"
#include "plan/plan_json.h"
#include "plan/planner.h"
#include "plan/scopes.h"
#include "recipe/checks.h"
#include "recipe/compare.h"
#include "recipe/load.h"
#include "report/figure_table.h"
#include "setup/first_meeting.h"
#include "setup/horizon.h"
#include "setup/loader_start.h"
#include "setup/search_process.h"
#include "setup/start_log.h"
#include "setup/start_table.h"
#include "setup/stored_plan.h"
#include "setup/torch_rule.h"
#include "state/catalog.h"
#include "state/data_files.h"
#include "state/identity.h"
#include "state/snapshot.h"
#include "trainer/advice.h"
#include "trainer/call_scope.h"
#include "trainer/found_boxes.h"
#include "trainer/run_checks.h"
#include "trainer/run_report.h"

namespace autotrain {
namespace {

std::unique_ptr<Ranks> launched_ranks(const Recipe& recipe) {
  const Launch launch = detect_launch(process_environment());
  auto ranks = Ranks::open(launch);
  if (launch.one_thread && !recipe.execution.threads && ranks->first()) {
    log::info(
        "trainer",
        "OMP_NUM_THREADS=1, which torchrun sets where nobody else has, is not obeyed: each rank computes in "
        "its share of the cores; execution.threads: 1 asks for one thread");
  }
  return ranks;
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

// What the recipe counts in updates means other samples from here on.
void warn_of_other_batch(const SavedRun& saved, int64_t effective, const Recipe& recipe) {
  const Position& position = saved.state.position;
  if (recipe.batch.changes() || position.updates == 0 || position.effective == effective) return;
  log::warn("trainer", cat("the effective batch was ", position.effective, " and is ", effective, ": the ",
                           format_count(position.learned), " samples learned from so far, in ",
                           format_count(position.updates), " updates, count as ",
                           format_count(ceil_div(position.learned, effective)),
                           " wherever the recipe counts in updates (stop.updates, schedule, every)"));
}

// Whether updates take memory by one plan as by the other, of one budget.
bool takes_alike(const BatchPlan& a, const BatchPlan& b) {
  const auto memory = [](const BatchPlan& plan) {
    return std::tuple(plan.budget_bytes, plan.peak_bytes, plan.micro_batch, plan.evaluation_micro_batch,
                      plan.precision, plan.recompute);
  };
  return memory(a) == memory(b);
}

// Those that the program brings, whose rates the recipe's schedule multiplies. Empty: it brings none.
MakeOptimizer take_optimizers(Recipe& recipe, const TrainerOptions& options) {
  if (options.optimizers.empty()) return {};
  check_keys_of_own_optimizers(recipe);
  recipe.optimizer.lr = 1;
  recipe.batch.lr_rule = "none";  // the batch that each rate is for is the program's to know
  return torch_optimizers(options.optimizers);
}

// The learning rate of the update after so many learned samples.
double rate_at(const Recipe& recipe, const RunState& state, int64_t learned, int64_t size, int64_t constant) {
  const BatchStages stages = stages_of(recipe, size, constant);
  const Schedule schedule(recipe.schedule, horizon_of(recipe, size, stages).updates, stages.first());
  const int64_t effective = recipe.batch.adapts() ? state.position.effective : stages.at(learned);
  const auto first = static_cast<double>(stages.first());
  return scaled_rate(recipe, stages, effective) * state.totals.lr_factor * state.position.plateau.factor *
         schedule.factor(static_cast<double>(learned) / first, static_cast<double>(effective) / first);
}

// A schedule that is drawn out, as by more epochs, begins again where it had come down to.
void tell_jump_of_rate(const SavedRun& saved, const Recipe& recipe, int64_t size, int64_t effective) {
  constexpr double kJump = 0.05;
  const Position& position = saved.state.position;
  if (position.updates == 0) return;
  try {
    const Recipe was = load_recipe_text(saved.recipe, "the checkpoint's recipe", catalog());
    const int64_t last = std::max<int64_t>(0, position.learned - position.effective);
    const double before = rate_at(was, saved.state, last, size, saved.plan.effective_batch);
    const double now = rate_at(recipe, saved.state, position.learned, size, effective);
    if (std::abs(now - before) <= kJump * std::max(now, before)) return;
    log::warn("optim", cat("lr at update ", position.updates, ": ", brief(before), " before, ", brief(now),
                           " now, by the changed recipe"));
  } catch (const Error& error) {
    log::debug("optim", cat("the learning rate before is not known: ", first_line(error)));
  }
}

}  // namespace

template <class Work>
auto Trainer::Run::call(Work work) {
  const CallScope scope(settings_, generator_, may_be_on_gpu());
  std::optional<ModeScope> mode;
  if (bench_) mode.emplace(bench_->task->module());
  return together(work);
}

// Before a search in a process of its own the driver must not have been started.
bool Trainer::Run::may_be_on_gpu() const {
  return recipe_.execution.device != "cpu" && (bench_ || !options_.search_apart);
}

template <class Work>
auto Trainer::Run::together(Work work) {
  try {
    return naming_device_errors(work);
  } catch (const Error& error) {
    ranks_->share_end(error);
    throw;
  } catch (const std::exception& error) {
    ranks_->share_end(Error(ExitCode::kInternal, "", error.what()));
    throw;
  } catch (...) {
    ranks_->share_end(Error(ExitCode::kBrokenContract, "", words_of_odd_exception()));
    throw;
  }
}

Trainer::Run::Run(Recipe recipe, Build build, TrainerOptions options)
    : recipe_(std::move(recipe)),
      options_(std::move(options)),
      observer_(options_.observer),
      build_(std::move(build)),
      generator_(at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(recipe_.seed))) {
  check_recipe(recipe_, catalog());
  const CallScope scope(settings_, generator_, may_be_on_gpu());
  ranks_ = options_.group ? Ranks::over(options_.group, process_environment()) : launched_ranks(recipe_);
  // A process of its own for the search would be no rank.
  if (ranks_->several()) options_.search_apart = false;
  if (!options_.search_apart) together([&] { return &bench(); });
}

std::unique_ptr<Trainer::Run> Trainer::Run::of_task(Recipe recipe, std::unique_ptr<Task> task,
                                                    const Dataset& train, const Dataset* validation,
                                                    TrainerOptions options) {
  options.search_apart = false;
  check_keys_of_own_task(recipe);
  const MakeOptimizer make_optimizer = take_optimizers(recipe, options);
  task = checked_task(std::move(task));
  const bool names = task->names_samples();
  RunData data;
  data.train = data.owned.emplace_back(checked_dataset(train, "Dataset", names)).get();
  if (validation != nullptr)
    data.validation =
        data.owned.emplace_back(checked_dataset(*validation, "validation Dataset", names)).get();
  // It is called at once, and only once, so it may take data and task away.
  const auto build = [&](const Recipe& r, std::optional<ResolvedBudget> settled,
                         std::shared_ptr<Ranks> ranks) {
    auto device = open_run_device(r, std::move(settled), ranks->place());
    return assemble(r, {.device = std::move(device),
                        .data = std::move(data),
                        .task = std::move(task),
                        .ranks = std::move(ranks),
                        .make_optimizer = make_optimizer});
  };
  return std::unique_ptr<Run>(new Run(std::move(recipe), build, std::move(options)));
}

std::unique_ptr<Trainer::Run> Trainer::Run::of_recipe(Recipe recipe, TrainerOptions options) {
  const MakeOptimizer make_optimizer = take_optimizers(recipe, options);
  const auto build = [make_optimizer](const Recipe& r, std::optional<ResolvedBudget> settled,
                                      std::shared_ptr<Ranks> ranks) {
    Materials materials = load_materials(r, std::move(settled), std::move(ranks));
    materials.make_optimizer = make_optimizer;
    return assemble(r, std::move(materials));
  };
  return std::unique_ptr<Run>(new Run(std::move(recipe), build, std::move(options)));
}

// A plan that was made elsewhere has settled the budget.
Workbench& Trainer::Run::bench() {
  if (bench_) return *bench_;
  bench_ =
      build_(recipe_,
             plan_ ? std::optional(ResolvedBudget{plan_->budget_bytes, plan_->budget_source}) : std::nullopt,
             ranks_);
  hosts_ = agree_on_the_machine(recipe_, *bench_);
  check_evaluations(recipe_, *bench_);
  if (plan_) set_recompute(recipe_, *bench_, plan_->recompute);  // another process may have chosen it
  return *bench_;
}

Trainer::Run::Place& Trainer::Run::place() {
  if (place_) return *place_;
  if (options_.resume && !options_.write_files)
    throw Error(ExitCode::kUsage, "TrainerOptions::resume", "goes on in a run folder, and write_files is off",
                "set write_files, or leave resume out");
  Place place;
  if (options_.write_files && ranks_->first()) place.folder = std::make_unique<RunFolder>(recipe_, options_);
  if (place.folder && options_.resume) {
    take_over_rescued(*place.folder);
    place.held_a_summary = std::filesystem::exists(place.folder->path() / "summary.json");
    place.resume_point = find_resume_point(*place.folder, recipe_, options_.allow_change);
  }
  const std::string session = place.folder ? place.folder->begin_session() : "";
  if (ranks_->several()) {
    const Ranks::Note found =
        ranks_->from_first({exact_text(place.folder ? place.folder->path().string() : ""),
                            resume_to_json(place.resume_point), session});
    if (!ranks_->first()) {
      place.first_ranks_path = read_exact_text(found.at(0));
      place.resume_point = resume_from_json(found.at(1));
      place.first_ranks_session = found.at(2).get<std::string>();
    }
  }
  place_.emplace(std::move(place));
  if (!place_->path().empty()) observer_.on_folder(place_->path());
  return *place_;
}

// A plan alone needs no folder but to see what a resume goes on from.
const std::optional<ResumePoint>& Trainer::Run::resume_point() {
  static const std::optional<ResumePoint> kNone;
  return options_.resume ? place().resume_point : kNone;
}

// Whether the checkpoint's plan can be executed here as it was there, on every rank.
bool Trainer::Run::stored_plan_holds() {
  if (!resume_point()->keep_plan) return false;
  std::string changed = why_plan_anew(recipe_, bench(), resume_point()->saved.plan);
  for (const Ranks::Note& elsewhere : ranks_->meet(changed)) {
    if (changed.empty()) changed = elsewhere.get<std::string>();
  }
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
    check_figures(recipe_, bench());
    check_gathered(recipe_, bench());
    BatchPlan plan = from->saved.plan;
    if (recipe_.execution.recompute != Recompute::kAuto)  // which plans of former versions do not say
      plan.recompute = recipe_.execution.recompute == Recompute::kOn;
    plan.lr = learning_rate_plan(recipe_, plan.effective_batch);  // which a resume may change
    plan.world_size = ranks_->place().world;                      // as may the number of ranks
    plan.window = WindowCut{plan.effective_batch, plan.micro_batch, bench().lanes}.most_pieces();
    describe_stages(recipe_, stages(plan.effective_batch), bench().lanes, plan);
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
  plan.origin = plan_origins(recipe_, plan.device);
  return plan;
}

// Looks for the plan here.
BatchPlan Trainer::Run::search(const Recipe& recipe, const std::vector<ProbeRecord>& known,
                               RunObserver& observer) {
  bench().device->use_from_this_thread();
  check_targets(recipe_, bench());
  check_figures(recipe_, bench());
  check_gathered(recipe_, bench());
  load_initial_weights();
  const auto plan_with = [&](Recompute recompute) {
    Recipe one_way = recipe;
    one_way.execution.recompute = recompute;
    const bool on = recompute == Recompute::kOn;
    set_recompute(recipe_, bench(), on);
    std::vector<ProbeRecord> alike;
    std::ranges::copy_if(known, std::back_inserter(alike), [&](const ProbeRecord& probe) {
      return probe.recompute == on || probe.outcome == ProbeOutcome::kCrashed;  // of which nobody knows
    });
    return search_one_way(std::move(one_way), std::move(alike), observer);
  };
  if (recipe.execution.recompute != Recompute::kAuto) return plan_with(recipe.execution.recompute);
  return faster_of_both(plan_with);
}

// Where the batch changes, for the largest one.
BatchPlan Trainer::Run::search_one_way(Recipe recipe, std::vector<ProbeRecord> known, RunObserver& observer) {
  std::vector<int64_t> smaller;
  if (recipe.batch.changes()) smaller = plan_for_largest(recipe);
  const bool recomputes = bench().recomputes;
  const auto mark = [recomputes](ProbeRecord probe) {
    probe.recompute = recomputes;
    return probe;
  };
  Planner planner({.recipe = recipe,
                   .lanes = bench().lanes.of,
                   .fresh = options_.fresh_plan,
                   .memory_keys = memory_keys(recipe),
                   .last_window =
                       [&](int64_t effective) {
                         return last_window_samples(recipe_, bench().data.train->size(), stages(effective));
                       },
                   .smaller_batches = std::move(smaller),
                   .known = std::move(known)},
                  bench(),
                  {.on_start = [&](int64_t micro_batch) { observer.on_trial(micro_batch); },
                   .on_end = [&](const ProbeRecord& probe) { observer.on_probe(mark(probe)); }});
  BatchPlan plan = planner.plan();
  plan.recompute = recomputes;
  for (ProbeRecord& probe : plan.search.probes) probe.recompute = recomputes;
  describe_stages(recipe_, stages(plan.effective_batch), bench().lanes, plan);
  check_plan(recipe_, bench(), plan);
  return plan;
}

// Of keeping and computing again: what makes the samples of an update sooner, by the trials of both.
BatchPlan Trainer::Run::faster_of_both(const std::function<BatchPlan(Recompute)>& plan_with) {
  constexpr double kGain = 1.02;  // what is less is noise
  std::optional<BatchPlan> kept;
  std::optional<Error> does_not_fit;
  try {
    kept = plan_with(Recompute::kOff);
  } catch (const Error& error) {
    if (error.code() != ExitCode::kDoesNotFit) throw;
    does_not_fit = error;
  }
  const auto stay = [&](const std::string& why) {
    kept->recompute_why = why;
    log::info("plan", "recompute: no; " + why);
    set_recompute(recipe_, bench(), false);
    return *kept;
  };
  if (kept && kept->window == 1)
    return stay("the whole effective batch fits without, and nothing is faster than to keep");
  std::optional<BatchPlan> again;
  try {
    again = plan_with(Recompute::kOn);
  } catch (const Error& error) {
    const bool expected = error.code() == ExitCode::kDoesNotFit || error.code() == ExitCode::kBadRecipe;
    if (!expected) throw;
    if (!kept) throw *does_not_fit;
    return stay(first_line(error));
  }
  const auto in_words = [](const BatchPlan& plan) {
    return cat(window_in_words(plan), " at ", format_rate(plan.samples_per_second), " samples/s");
  };
  if (kept && again->samples_per_second < kGain * kept->samples_per_second) {
    return stay(cat(in_words(*kept), ", computing again ", in_words(*again), ": accumulating is ",
                    format_percent(kept->samples_per_second / again->samples_per_second - 1), " faster"));
  }
  again->recompute_why =
      kept ? cat(in_words(*again), ", keeping ", in_words(*kept)) : "not even one sample fits without";
  log::info("plan", "recompute: yes; " + again->recompute_why);
  return *again;
}

// Has the recipe ask for the largest batch of all stages. @return the others.
std::vector<int64_t> Trainer::Run::plan_for_largest(Recipe& recipe) {
  const BatchStages course = stages(0);
  check_stages(recipe_, course, bench().data.train->size(), bench().lanes.of);
  recipe.batch.effective = course.largest();
  std::vector<int64_t> smaller;
  for (const BatchStage& stage : course.list()) smaller.push_back(stage.effective);
  if (recipe.batch.adapts()) {
    smaller.push_back(course.least());
    // Noise is told by the parts of an update, of which the smallest has two.
    auto& cap = recipe.batch.limits.max_micro_batch;
    if (bench().lanes.of == 1)
      cap = std::min(cap.value_or(course.least()), std::max<int64_t>(1, course.least() / 2));
  }
  std::erase(smaller, course.largest());
  return smaller;
}

// @param constant samples per update where they do not change.
BatchStages Trainer::Run::stages(int64_t constant) {
  return stages_of(recipe_, bench().data.train->size(), constant);
}

BatchPlan& Trainer::Run::made_plan() {
  if (plan_) return *plan_;
  plan_ = make_plan();
  if (bench_) set_recompute(recipe_, *bench_, plan_->recompute);
  return *plan_;
}

const BatchPlan& Trainer::Run::plan() {
  return *call([&] {
    if (!plan_) ranks_->agree_on(options_.resume ? "plan with --resume" : "plan");
    return &made_plan();
  });
}

// A recipe gives initial weights to a model that it names. A resume needs none: a checkpoint has all weights.
void Trainer::Run::load_initial_weights() {
  if (std::exchange(weights_loaded_, true)) return;
  if (!ranks_->first()) return;  // whose tensors all have when training begins
  if (!recipe_.weights.file || (place_ && place_->resume_point) || !bench().data.from_recipe) return;
  tell_other_model(recipe_);
  take_from(recipe_.weights);
}

void Trainer::Run::take_from(const WeightsRecipe& weights) {
  log::info("model", cat(*weights.file, ": ", describe(take_weights(weights, bench().task->module()))));
  bench().average.restart();
}

void Trainer::Run::load_weights(const std::filesystem::path& file) {
  call([&] {
    if (fitted_)
      throw Error(ExitCode::kUsage, "Trainer::load_weights", "fit was called before",
                  "load them first, or make another trainer");
    const auto compressed = read_compressed(file);
    if (compressed && compressed->is_pruned())
      throw Error(ExitCode::kBadRecipe, file.string(),
                  "holds pruned weights, whose zeros and shapes a model keeps from its start",
                  "name the file in the recipe's model.weights");
    weights_loaded_ = true;
    take_from({.file = file.string()});
    return true;
  });
}

FigureKinds Trainer::Run::figure_kinds() {
  return call([&] { return evaluation_kinds(bench()); });
}

// The state to begin with; tensors are a checkpoint's where there is one.
RunState Trainer::Run::restored_state() {
  if (!place().resume_point) return {};
  const ResumePoint& from = *place().resume_point;
  RunState state = from.saved.state;
  if (RunFolder* const folder = place().folder.get()) {
    load_tensors(folder->checkpoints(), from.update, bench());
    check_finite_parameters(bench().task->module(), folder->checkpoints().path_of(from.update).string());
    // Checkpoints of later updates are broken or half written, or this one would not be the newest.
    folder->checkpoints().prune(from.update, retention_of(recipe_));
  }
  warn_of_other_batch(from.saved, made_plan().effective_batch, recipe_);
  if (!from.same_recipe)
    tell_jump_of_rate(from.saved, recipe_, bench().data.train->size(), made_plan().effective_batch);
  const Identity now = identity_of(bench(), made_plan());
  const std::vector<std::string> changes =
      from.same_recipe ? changes_of_data(from.saved.identity, now)
                       : changes_of_data(files_in(from.saved.identity), files_in(now));
  for (const std::string& change : changes)
    log::warn("trainer", cat("resumed with other data: ", change, ". Try: put the former files back"));
  changed_ = changes;
  if (validates_on_others(from.saved.identity, now, recipe_))
    state.position.best_of = "other data";  // so that the loop looks for it anew
  if (!from.same_recipe) {
    for (const KeyDifference& d : changes_of_recipe(from.saved, recipe_)) {
      if (decides_learning(d.decides)) changed_.push_back(describe({d}));
    }
  }
  // The peak of former sessions says nothing of this budget and this plan.
  if (const BatchPlan& was = from.saved.plan; !takes_alike(was, made_plan())) {
    const int64_t peak = std::exchange(state.totals.peak_bytes, 0);
    changed_.push_back(cat("the plan is another one: peak memory, until here ", format_bytes(peak), " of ",
                           format_bytes(was.budget_bytes), ", counts anew"));
  }
  if (from.same_recipe) {
    if (has_other_initial_weights(from.saved.identity, now)) {
      log::warn("trainer",
                cat(recipe_.weights.file.value_or(""), " has changed since the checkpoint was written, ",
                    "whose weights training goes on with. Try: another --output to begin from that file"));
    }
  }
  const std::string how =
      from.same_recipe ? exactness(from.saved.identity, now) : "with another recipe than it was begun with";
  const std::string where = place().folder ? place().folder->path().string() : "the first rank's checkpoint";
  log::info("trainer", cat("resumed at update ", state.position.updates, " from ", where,
                           "; the continuation is ", how));
  if (how != "exact") state.position.loss_ahead.reset();  // it would differ by rounding
  return state;
}

// A file of names may be written anew without any word of the recipe.
void Trainer::Run::check_classes() {
  const std::string change = change_of_classes(place().folder->path(), class_names_in(*bench().data.train));
  if (change.empty()) return;
  if (!options_.allow_change) {
    throw Error(ExitCode::kBadData, "data.train", change,
                "put the former data back, begin a new run, or add --allow-change");
  }
  log::warn("trainer", change);
}

// Rows of a run that was killed before its first checkpoint belong to nothing: they are cut off. A summary
// tells of an end, and the run goes on: readers of the folder would take it for this session's.
void Trainer::Run::begin_files(const RunState& state) {
  RunFolder& folder = *place().folder;
  remove_file(folder.path() / "summary.json");
  folder.save_recipe(recipe_);
  folder.write_json("plan.json", plan_to_json(made_plan()));
  write_class_names(*bench().data.train, folder.path());
  folder.open_metrics(options_.resume ? std::optional(state.position.metrics_bytes) : std::nullopt);
}

std::unique_ptr<TelemetrySampler> Trainer::Run::start_telemetry(const RunState& state) {
  if (recipe_.execution.telemetry == 0 || !place().folder) return nullptr;
  std::vector<std::unique_ptr<TelemetrySource>> sources;
  sources.push_back(process_telemetry());
  if (auto gpu = gpu_telemetry(bench().device->bus_id())) sources.push_back(std::move(gpu));
  return std::make_unique<TelemetrySampler>(std::move(sources), place().folder->path() / "telemetry.jsonl",
                                            std::max(0.01, recipe_.execution.telemetry),
                                            steady_seconds() - state.totals.seconds);
}

// Null on the first rank, and where nothing is written.
std::unique_ptr<Deputy> Trainer::Run::make_deputy(const RunState& state) {
  if (place().first_ranks_session.empty()) return nullptr;
  return std::make_unique<Deputy>(place().first_ranks_path, place().first_ranks_session, bench(),
                                  state.position.metrics_bytes);
}

void Trainer::Run::train(Reached& reached) {
  RunFolder* const folder = place().folder.get();
  bench().device->use_from_this_thread();
  if (folder != nullptr && place().resume_point) check_classes();
  RunState& state = reached.state.emplace(restored_state());
  running_ = &state;
  const struct NotRunning {
    const RunState*& running;
    ~NotRunning() { running = nullptr; }
  } at_the_end{running_};
  share_tensors(bench(), place().resume_point.has_value());
  const std::unique_ptr<Deputy> deputy = make_deputy(state);
  log_start(recipe_, made_plan(), bench());
  tell_undefined_figures(recipe_, bench());
  tell_unmeasured_metrics(recipe_, bench());
  tell_unreached(recipe_, bench(), made_plan());
  start_loader(made_plan(), recipe_.execution.loader, bench());
  observer_.on_start(made_plan(), start_table(recipe_, made_plan(), bench(), hosts_));
  Followers followers;
  std::optional<TensorBoardFollower> tensorboard;
  if (folder != nullptr) {
    check_disk_space(recipe_.checkpoint, folder->checkpoints(), live_tensors(bench()).bytes());
    begin_files(state);
  }
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
  if (deputy) followers.add(*deputy);
  followers.add(observer_);
  followers.add(callbacks);
  Session session{.recipe = recipe_,
                  .plan = made_plan(),
                  .bench = bench(),
                  .state = state,
                  .folder = folder,
                  .deputy = deputy.get(),
                  .followers = followers,
                  .rank_totals = reached.rank_totals};
  for (const std::string& change : changed_) session.note(EventKind::kResumed, change);
  try {
    reached.stopped_by = TrainingLoop(session, callbacks, /*saved=*/place().resume_point.has_value()).run();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    if (classify_failure(error) == Failure::kOther) throw;
    throw out_of_memory(bench(), made_plan(), error, bench().device->memory().last_refusal(), "training",
                        made_plan().micro_batch, "");
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
                  .test = reached.test,
                  .figure_kinds = position.figure_kinds,
                  .tables = position.last_tables,
                  .peak_bytes = totals.peak_bytes,
                  .oom_recoveries = totals.recoveries,
                  .skipped_updates = totals.skipped,
                  .rollbacks = totals.rollbacks,
                  .checkpoint_stall_seconds = totals.checkpoint_stall_seconds,
                  .activity_seconds = totals.activity_seconds,
                  .noise_scale = position.noise.scale(),
                  .preconditioned_noise_scale = position.preconditioned_noise.scale(),
                  .folder = place_ ? place_->path().string() : ""};
  if (!error.empty())
    summary.stopped_by = status == RunStatus::kFailed ? StopReason::kError : StopReason::kSignal;
  if (position.best_update >= 0) summary.best["update"] = static_cast<double>(position.best_update);
  if (totals.training_seconds > 0) {
    const auto waited = totals.activity_seconds.find("data_wait");
    const double waited_seconds = waited == totals.activity_seconds.end() ? 0 : waited->second;
    summary.samples_per_second = static_cast<double>(position.cursor) / totals.training_seconds;
    summary.data_wait_fraction = std::min(1.0, waited_seconds / totals.training_seconds);
  }
  summary.ranks = reached.rank_totals.ranks();
  for (size_t rank = 0; rank < summary.ranks.size(); ++rank) summary.ranks[rank].host = hosts_.at(rank);
  summary.rank_wait_fraction = reached.rank_totals.wait_fraction();
  if (reached.telemetry) summary.telemetry = reached.telemetry->means();
  if (bench_) {
    summary.epochs = static_cast<double>(position.cursor) / static_cast<double>(bench_->data.train->size());
    for (const SkippingDataset* dataset : bench_->data.skipping) summary.bad_samples += dataset->count();
    summary.loader_workers =
        bench_->loader.prefetch > 0 && !bench_->data.train->on_device() && !bench_->data.train->changes()
            ? bench_->loader.workers
            : 0;
  }
  return summary;
}

// Where the run goes on from.
DeviceLost Trainer::Run::with_last_checkpoint(const DeviceLost& error) const {
  if (!place_ || !place_->folder) return error;
  const std::filesystem::path& folder = place_->folder->path();
  const CheckpointFolder& checkpoints = place_->folder->checkpoints();
  const std::vector<int64_t> saved = checkpoints.updates();
  if (saved.empty()) return {error.where(), error.problem() + "; there is no checkpoint yet", error.hint()};
  return {error.where(),
          cat(error.problem(), "\n  update ", saved.back(), " is the last one that is saved, in ",
              checkpoints.path_of(saved.back()).string()),
          cat("go on from there with --output ", folder.string(), " --resume; ", error.hint())};
}

// Summary and report. Why the run failed is what its user must see, whatever else fails now.
void Trainer::Run::write_end(const Summary& summary) {
  if (!place_ || !place_->folder) return;
  RunFolder& folder = *place_->folder;
  try {
    folder.flush();
    folder.write_json("summary.json", summary_to_json(summary));
  } catch (const std::exception& problem) {
    if (summary.error.empty()) throw;
    log::warn("trainer", problem.what());
  }
  draw_report(folder.path(), recipe_.report);
}

Summary Trainer::Run::fit() {
  return call([&] { return fit_together(); });
}

namespace {

// Samples at once in an evaluation that no trial tried.
int64_t evaluation_size(const BatchPlan& plan) {
  return plan.evaluation_micro_batch > 0 ? plan.evaluation_micro_batch : plan.micro_batch;
}

}  // namespace

EvaluationRecord Trainer::Run::evaluate(const Dataset& data) {
  return call([&] { return evaluate_on(data); });
}

EvaluationRecord Trainer::Run::evaluate_on(const Dataset& data) {
  const std::unique_ptr<const Dataset> checked =
      checked_dataset(data, "Dataset", bench().task->names_samples());
  const Stopwatch watch;
  const Position at = running_ != nullptr ? running_->position : ended_.value_or(Position());
  const BatchPlan& plan = made_plan();
  const int64_t size = evaluation_size(plan);
  bench().device->use_from_this_thread();
  auto found = evaluate_in_attempts(bench(), plan, *checked, size, [](int64_t) { return true; });
  return {.update = at.updates,
          .epoch = static_cast<double>(at.cursor) / static_cast<double>(bench().data.train->size()),
          .split = "evaluate",
          .figures = std::move(found->figures),
          .kinds = std::move(found->kinds),
          .tables = std::move(found->tables),
          .seconds = watch.seconds(),
          .samples = checked->size()};
}

// By the weights that the run ends with: the last, or where patience ended it, the best. What cannot be read
// is told: the run has ended well.
void Trainer::Run::read_test_data(Reached& reached) {
  const Dataset* const data = bench().data.test;
  if (data == nullptr || reached.stopped_by == StopReason::kSignal) return;
  const BatchPlan& plan = made_plan();
  const int64_t size = evaluation_size(plan);
  const auto read = [&]() -> std::optional<Evaluation> {
    try {
      auto found = evaluate_in_attempts(bench(), plan, *data, size, [&](int64_t done) {
        observer_.on_evaluation_progress(done, data->size());
        return pending_interrupt() != Interrupt::kStop;
      });
      if (!found)
        log::warn(
            "trainer",
            "stopped by a signal before the test data were read: autotrain evaluate --data test reads them");
      return found;
    } catch (const Error& error) {
      if (error.code() != ExitCode::kDoesNotFit) throw;
      log::warn("trainer", cat("the test data were not read: ", first_line(error)));
      return std::nullopt;
    }
  };
  const bool best = recipe_.stop.patience && ended_->best_update >= 0 && !place_->path().empty();
  std::optional<Evaluation> found;
  if (best) {
    take_weights_of(Weights::kBest);  // with averages in the place of weights where there are some
    found = read();
    take_weights_of(Weights::kLast);
  } else if (bench().average.active()) {
    share_buffers(bench());
    const AveragedWeights averaged(bench().average);
    found = read();
  } else {
    found = read();
  }
  if (!found) return;
  reached.test = found->figures;
  reached.test["update"] = static_cast<double>(best ? ended_->best_update : ended_->updates);
}

// As its evaluations saw them: with averages in the place of weights where there are some.
void Trainer::Run::draw_boxes_of(const Reached& reached) {
  if (!recipe_.report.html || reached.stopped_by == StopReason::kSignal || !finds_boxes(bench(), recipe_))
    return;
  std::optional<AveragedWeights> averaged;
  if (bench().average.active()) {
    share_buffers(bench());
    averaged.emplace(bench().average);
  }
  if (place_->folder)
    try_to_draw_boxes(bench(), evaluation_size(made_plan()), ended_->updates, place_->folder->path());
}

void Trainer::Run::take(Weights which) {
  call([&] { return take_weights_of(which), true; });
}

// What the task keeps beside the module is changed by the best alone, and is copied from then on.
void Trainer::Run::take_weights_of(Weights which) {
  if (!ended_) throw Error(ExitCode::kUsage, "Trainer::take", "the run has not ended", "call fit() first");
  if (which == Weights::kAverage && !bench().average.active()) {
    throw Error(ExitCode::kUsage, "Trainer::take", "weights were not averaged",
                "set average.half_life, or take kLast or kBest");
  }
  const torch::NoGradGuard no_gradients;
  std::vector<NamedTensor> live = model_tensors(bench().task->module());
  if (which == Weights::kBest || last_.size() > live.size()) {
    const std::vector<NamedTensor> state = task_tensors(*bench().task);
    live.insert(live.end(), state.begin(), state.end());
  }
  for (size_t i = last_.size(); i < live.size(); ++i) {
    const ThreadWork program(false);  // which asks for it
    last_.push_back(live[i].tensor.to(torch::kCPU, live[i].tensor.scalar_type(),
                                      /*non_blocking=*/false, /*copy=*/true));
  }
  if (which == Weights::kBest) return take_best();
  for (size_t i = 0; i < live.size(); ++i) live[i].tensor.copy_(last_[i]);
  if (which == Weights::kLast) return;
  const std::vector<NamedTensor> averages = bench().average.state();
  for (size_t i = 0; i < averages.size(); ++i) bench().average.live()[i].tensor.copy_(averages[i].tensor);
}

// The first rank reads them, whose tensors all have then.
void Trainer::Run::take_best() {
  if (ended_->best_update < 0 || place_->path().empty()) {
    throw Error(ExitCode::kUsage, "Trainer::take",
                place_->path().empty() ? "the run wrote no checkpoint" : "no evaluation found a best",
                "give validation data, and a folder to write into; or take kLast");
  }
  if (place_->folder) {
    const std::filesystem::path best = place_->folder->checkpoints().path_of(ended_->best_update);
    read_safetensors_into(evaluated_weights(best), model_tensors(bench().task->module()),
                          "the checkpoint is of another model than this program's");
    const std::vector<NamedTensor> state = task_tensors(*bench().task);
    read_some_safetensors(best / "optimizer.safetensors", [&](const TensorEntry& entry) {
      const auto own = std::ranges::find(state, entry.name, &NamedTensor::name);
      return own == state.end() || own->tensor.sizes() != entry.shape ? torch::Tensor() : own->tensor;
    });
  }
  share_tensors(bench(), /*loaded=*/false);
}

Summary Trainer::Run::fit_together() {
  if (std::exchange(fitted_, true))
    throw Error(ExitCode::kUsage, "Trainer::fit", "was called before",
                "make another trainer: each is one run");
  const StopSignalScope requeue(signal_number(recipe_.execution.requeue_signal));
  const FullDiskScope full_disk(recipe_.checkpoint.full_disk_wait);
  Reached reached;
  const auto end = [&](RunStatus status, ExitCode code, const std::string& error) {
    Summary summary = summarise(reached, status, code, error);
    reached.telemetry.reset();  // its file is whole before it is drawn
    // A resume that ended before it began leaves what the folder says of the run.
    const bool keeps = !reached.state && place_ && place_->held_a_summary;
    if (!keeps) write_end(summary);
    return summary;
  };
  // What is known of the run is written without asking the device.
  const LostDeviceScope lost([&](const DeviceLost& error) {
    DeviceLost told = with_last_checkpoint(error);
    end(RunStatus::kFailed, told.code(), told.what());
    return told;
  });
  // The folder is another run's to go on with as soon as this one has ended, however it ended.
  const struct UnlockAtEnd {
    const std::optional<Place>& place;
    ~UnlockAtEnd() {
      if (place && place->folder) place->folder->unlock();
    }
  } unlock{place_};
  try {
    naming_device_errors([&] {
      ranks_->agree_on(options_.resume ? "train with --resume" : "train");
      place();
      made_plan();
      load_initial_weights();
      train(reached);
      ended_ = reached.state->position;
      read_test_data(reached);
      draw_boxes_of(reached);
    });
  } catch (const DeviceLost& error) {
    throw leave_lost_device(error);
  } catch (const Error& error) {
    const bool interrupted = error.code() == ExitCode::kInterrupted;
    end(interrupted ? RunStatus::kInterrupted : RunStatus::kFailed, error.code(), error.what());
    throw;
  } catch (const std::exception& error) {
    end(RunStatus::kFailed, ExitCode::kInternal, error.what());
    throw;
  } catch (...) {
    end(RunStatus::kFailed, ExitCode::kBrokenContract, words_of_odd_exception());
    throw;
  }
  const bool interrupted = reached.stopped_by == StopReason::kSignal;
  const Summary summary = end(interrupted ? RunStatus::kInterrupted : RunStatus::kCompleted,
                              interrupted ? ExitCode::kInterrupted : ExitCode::kDone, "");
  observer_.on_finish(summary, made_plan(), advice_for(recipe_, made_plan(), bench(), summary));
  return summary;
}

}  // namespace autotrain
