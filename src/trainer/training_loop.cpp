#include "trainer/training_loop.h"

#include <algorithm>
#include <cmath>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/text.h"

namespace autotrain {
namespace {

constexpr double kMemorySampleSeconds = 0.1;

std::unique_ptr<TraceFile> trace_of(const LoopContext& context) {
  const auto& updates = context.recipe.execution.trace;
  if (!updates || context.folder == nullptr) return nullptr;
  auto trace =
      std::make_unique<TraceFile>(context.folder->path() / "trace.json", updates->at(0), updates->at(1));
  trace->advance(context.state.updates);
  return trace;
}

Progress progress_of(const RunState& state, int64_t dataset_size) {
  return {.updates = state.updates,
          .samples = state.cursor,
          .dataset_size = dataset_size,
          .seconds = state.seconds};
}

}  // namespace

TrainingLoop::TrainingLoop(const LoopContext& context)
    : c_(context),
      horizon_(horizon_of(c_.recipe, c_.parts.stream.size(), c_.plan.effective_batch)),
      total_updates_(horizon_.updates.value_or(0)),
      schedule_(c_.recipe.schedule, horizon_.updates, c_.plan.effective_batch),
      trace_(trace_of(c_)),
      tuner_(c_.parts.loader.workers, c_.parts.most_workers),
      writer_(c_.folder ? std::make_unique<CheckpointWriter>(c_.folder->checkpoints()) : nullptr),
      micro_batch_(c_.plan.micro_batch),
      evaluation_clock_(c_.recipe.evaluation.every, progress_of(c_.state, c_.parts.stream.size())),
      checkpoint_clock_(c_.recipe.checkpoint.every, progress_of(c_.state, c_.parts.stream.size())),
      session_start_(steady_seconds()),
      seconds_before_(c_.state.seconds) {
  c_.parts.step.set_loss_factor(c_.plan.loss_factor);
  c_.parts.task->module().train();
  last_finished_ = session_start_;
  c_.parts.timeline.cut();  // what was done before is no part of the first update
  saved_ = c_.saved;
}

std::string TrainingLoop::run() {
  try {
    run_to_the_end();
  } catch (const Error& error) {
    throw with_rescue(error);
  } catch (const std::exception&) {
    rescue();
    throw;
  }
  return stopped_by_;
}

void TrainingLoop::run_to_the_end() {
  open_loader(c_.plan.effective_batch);
  if (c_.state.evaluation_owed) evaluate_now();
  stop_when_over();  // resumed at its end
  while (!stopping()) {
    if (roll_back_for_) roll_back();
    train_window();
    if (!stopping()) after_window();
  }
  settle();
  if (roll_back_for_) roll_back();  // stopped by a signal meanwhile
  const bool to_its_end = stopped_by_ != "signal";
  if (to_its_end && c_.state.evaluated_update != c_.state.updates) evaluate_now();
  sample_memory();
  if (!saved_) checkpoint_now(/*may_go_on=*/false);
  if (writer_) writer_->wait();
  if (trace_) trace_->write();
}

void TrainingLoop::open_loader(int64_t window_samples) {
  loader_.reset();  // its batches must be gone before the next one prepares its own
  const WindowCut cut{window_samples / c_.plan.world_size, micro_batch_};
  Loader::Options options = c_.parts.loader;
  if (trace_) {
    options.on_loaded = [trace = trace_.get()](int64_t worker, double start, double end, int64_t samples) {
      trace->add(cat("loader ", worker + 1), "load", start, end, {{"samples", samples}});
    };
  }
  loader_ = std::make_unique<Loader>(
      *c_.parts.data.train, c_.parts.stream,
      endless_windows(*c_.parts.data.train, c_.parts.stream, cut, c_.state.cursor), std::move(options));
}

// Which threads load changes no sample, so a run may try.
void TrainingLoop::tune_loader(double seconds, double waited) {
  const int64_t workers = tuner_.after_update(underway_.samples, seconds, waited);
  if (workers == c_.parts.loader.workers) return;
  log::info("data", cat("loading in ", workers, " threads from update ", c_.state.updates + 1, " on"));
  c_.parts.loader.workers = workers;
  loader_->set_workers(workers);
}

void TrainingLoop::note_bad_samples() {
  for (const SkippingDataset* dataset : c_.parts.data.skipping) {
    for (const auto& bad : dataset->take_found()) {
      note("bad_sample", cat(bad.index, ": ", bad.why));
    }
  }
}

int64_t TrainingLoop::next_window_samples() const {
  const bool last = horizon_.last_window > 0 && c_.state.updates + 1 == total_updates_;
  return last ? horizon_.last_window : c_.plan.effective_batch;
}

void TrainingLoop::train_window() {
  const int64_t samples = next_window_samples();
  if (samples != c_.plan.effective_batch) open_loader(samples);  // the one shorter window at the end
  for (bool applied = false; !applied;) {
    const Attempt accumulated = attempt(samples, [&] { return accumulate_window(samples); });
    if (accumulated == Attempt::kStopped) return;
    if (accumulated == Attempt::kAgain) continue;
    settle();
    if (stopping() || roll_back_for_) return c_.parts.step.abandon();
    applied = attempt(samples, [&] { return apply_window(samples), true; }) == Attempt::kDone;
  }
  after_attempts();
  // Whether this one was applied decides whether the next window is the last, or there is none.
  const int64_t left = total_updates_ - (c_.state.updates + 1);
  if (total_updates_ > 0 && left <= (horizon_.last_window > 0 ? 1 : 0)) settle();
}

// False when a signal stopped it; the window then has left no trace.
bool TrainingLoop::accumulate_window(int64_t samples) {
  for (int64_t offset = 0; offset < samples;) {
    if (pending_interrupt() == Interrupt::kStop) {
      c_.parts.step.abandon();
      stop("signal");
      return false;
    }
    c_.parts.timeline.enter(Activity::kDataWait);
    const std::optional<Batch> batch = loader_->next();
    c_.parts.timeline.enter(Activity::kCopy);
    c_.parts.step.accumulate(c_.parts.device->upload(*batch), c_.state.windows, offset);
    offset += batch->samples;
  }
  return true;
}

void TrainingLoop::apply_window(int64_t samples) {
  const bool may_be_the_last = c_.recipe.divergence.policy == DivergencePolicy::kStop ||
                               c_.state.consecutive_skips + 1 >= c_.recipe.stop.max_skipped;
  if (may_be_the_last) {
    first_non_finite_ = c_.parts.step.first_non_finite_gradient();
  }
  c_.parts.average.set_update_samples(samples);
  const double lr = c_.plan.lr.scaled * c_.state.lr_factor * schedule_.factor(c_.state.updates);
  underway_ = {.figures = c_.parts.step.finish(lr), .lr = lr, .first = c_.state.cursor, .samples = samples};
  c_.parts.timeline.enter(Activity::kOther);
  underway_.stretch = c_.parts.timeline.cut();
  ++c_.state.windows;
  c_.state.cursor += samples;
  saved_ = false;
}

void TrainingLoop::settle() {
  if (!underway_.figures.valid()) return;
  c_.parts.timeline.enter(Activity::kOther);
  const UpdateOutcome outcome = underway_.figures.read();
  sample_memory_sometimes();
  note_bad_samples();
  outcome.applied ? record_applied(outcome) : record_skipped(outcome);
  last_finished_ = underway_.figures.finished_seconds();
  c_.state.seconds = seconds_now();
  stop_when_over();
}

void TrainingLoop::stop_when_over() {
  const StopRecipe& limits = c_.recipe.stop;
  if (all_updates_done()) stop(horizon_.stopped_by);
  if (limits.minutes && c_.state.seconds >= *limits.minutes * 60) stop("minutes");
  if (limits.patience && c_.state.evaluations_since_best >= *limits.patience) stop("patience");
}

// Where the time of the update under way went, which also counts in the run's sums.
std::map<std::string, double> TrainingLoop::account_time() {
  const std::vector<ActivitySpan> spans = underway_.stretch.read();
  for (const ActivitySpan& span : spans) {
    if (!trace_) break;
    trace_->add("step", std::string(name_of(span.activity)), span.start, span.end,
                {{"update", c_.state.updates}});
  }
  if (trace_) trace_->advance(c_.state.updates);
  const ActivitySeconds spent = seconds_by_activity(spans);
  std::map<std::string, double> named;
  for (size_t i = 0; i < kActivities; ++i) {
    const std::string name(name_of(static_cast<Activity>(i)));
    named[name] = spent[i];
    c_.state.activity_seconds[name] += spent[i];
  }
  return named;
}

void TrainingLoop::record_applied(const UpdateOutcome& outcome) {
  ++c_.state.updates;
  c_.state.consecutive_skips = 0;
  const double seconds = underway_.figures.finished_seconds() - last_finished_;
  c_.state.training_seconds += seconds;
  const std::map<std::string, double> activities = account_time();
  const double waited = activities.at("data_wait");
  const UpdateRecord record{.update = c_.state.updates,
                            .epoch = epoch(),
                            .samples = c_.state.cursor,
                            .loss = outcome.loss,
                            .lr = underway_.lr,
                            .grad_norm = outcome.grad_norm,
                            .scale = outcome.scale,
                            .samples_per_second = static_cast<double>(underway_.samples) / seconds,
                            .peak_bytes = c_.state.peak_bytes,
                            .data_wait_fraction = std::min(1.0, waited / seconds),
                            .training_seconds = c_.state.training_seconds,
                            .activity_seconds = activities};
  tune_loader(seconds, waited);
  if (c_.telemetry) c_.telemetry->set_update(c_.state.updates);
  if (c_.folder) c_.folder->write(record);
  if (c_.parts.data.validation == nullptr) c_.state.last_figures = {{"train_loss", outcome.loss}};
  c_.observer->on_update(record, total_updates_);
  for (const auto& callback : c_.callbacks.update) {
    if (callback(record) == Flow::kStop) stop("callback");
  }
}

void TrainingLoop::record_skipped(const UpdateOutcome& outcome) {
  ++c_.state.skipped;
  ++c_.state.consecutive_skips;
  c_.state.training_seconds += underway_.figures.finished_seconds() - last_finished_;
  account_time();
  note("skipped", cat("window ", c_.state.windows, ": loss ", outcome.loss, ", gradient norm ",
                      outcome.grad_norm, ", scale ", outcome.scale, ", weight ", outcome.weight));
  consider_divergence(outcome);
}

void TrainingLoop::after_window() {
  // The figures are read only when something may be due: whether the update counts is in them.
  if (writer_) writer_->notice_failure();
  const Progress ahead = progress_with_pending();
  if (!evaluation_clock_.near(ahead) && !checkpoint_clock_.near(ahead) && !checkpoint_requested()) return;
  // Owed from here on, so that whatever happens before it is made, a resume makes it.
  c_.state.evaluation_owed |= evaluation_clock_.near(ahead) && c_.parts.data.validation != nullptr;
  settle();
  if (roll_back_for_) return;
  const bool evaluation_due = evaluation_clock_.due(progress());
  c_.state.evaluation_owed &= evaluation_due;
  bool checkpoint_due = checkpoint_clock_.due(progress());
  if (take_checkpoint_request()) {
    log::info("trainer", cat("a signal asked for a checkpoint: update ", c_.state.updates));
    checkpoint_due = true;
  }
  if (evaluation_due && !stopping()) checkpoint_due |= evaluate_now();
  if (checkpoint_due && !stopping()) checkpoint_now();
}

// True when this evaluation is the best so far.
bool TrainingLoop::evaluate_now() {
  if (c_.parts.data.validation == nullptr) return false;
  const Stopwatch watch;
  c_.parts.timeline.enter(Activity::kEvaluation);
  int64_t samples = 0;
  const int64_t total = c_.parts.data.validation->size();
  std::optional<Evaluation> found = evaluate_with_recovery([&](int64_t done) {
    samples = done;
    c_.observer->on_evaluation_progress(done, total);
    return pending_interrupt() != Interrupt::kStop;
  });
  c_.parts.timeline.enter(Activity::kOther);
  sample_memory();
  last_finished_ = steady_seconds();  // the time spent here is not training time
  c_.state.seconds = seconds_now();
  saved_ = false;
  c_.state.evaluation_owed = true;
  if (!found) {
    stop("signal");
    return false;
  }

  const EvaluationRecord record{.update = c_.state.updates,
                                .epoch = epoch(),
                                .split = "validation",
                                .figures = found->figures,
                                .kinds = found->kinds,
                                .tables = found->tables,
                                .seconds = watch.seconds(),
                                .samples = samples};
  if (c_.folder) c_.folder->write(record);
  const bool improved = note_best(std::move(*found));
  c_.state.evaluated_update = c_.state.updates;
  c_.state.evaluation_owed = false;
  c_.observer->on_evaluation(record);
  for (const auto& callback : c_.callbacks.evaluation) {
    if (callback(record) == Flow::kStop) stop("callback");
  }
  stop_when_over();
  return improved;
}

// Compares with the best evaluation so far; true when this one is better.
bool TrainingLoop::note_best(Evaluation found) {
  RunState& state = c_.state;
  const std::string& monitor = c_.recipe.evaluation.monitor;
  const auto measured = found.figures.find(monitor);
  check_invariant(measured != found.figures.end(), "the monitored figure was checked before training");
  const double value = measured->second;
  const bool lower = found.kinds.at(monitor).better == Better::kLower;
  const auto gain_over = [&](double former) { return lower ? former - value : value - former; };
  state.last_figures = std::move(found.figures);
  state.figure_kinds = std::move(found.kinds);
  state.last_tables = std::move(found.tables);
  const bool first = !state.best_figures.contains(monitor);  // a resume may monitor another figure
  ++state.evaluations_since_best;
  if (!std::isfinite(value)) return false;
  if (first || gain_over(state.best_for_patience) > c_.recipe.stop.min_delta) {
    state.best_for_patience = value;
    state.evaluations_since_best = 0;
  }
  if (!first && gain_over(state.best_figures.at(monitor)) <= 0) return false;
  state.best_figures = state.last_figures;
  state.best_update = state.updates;
  return true;
}

// The first reason stands, but for a signal: what was still to do is left for the next session.
void TrainingLoop::stop(std::string reason) {
  if (!stopping() || reason == "signal") stopped_by_ = std::move(reason);
}

bool TrainingLoop::all_updates_done() const {
  return total_updates_ > 0 && c_.state.updates >= total_updates_;
}

void TrainingLoop::note(const std::string& event, const std::string& detail) {
  const EventRecord record{.update = c_.state.updates, .event = event, .detail = detail};
  if (c_.folder) c_.folder->write(record);
  c_.observer->on_event(record);
}

// Reading the process's memory takes microseconds; updates may take less than a hundred.
void TrainingLoop::sample_memory_sometimes() {
  if (steady_seconds() - last_memory_sample_ >= kMemorySampleSeconds) sample_memory();
}

void TrainingLoop::sample_memory() {
  last_memory_sample_ = steady_seconds();
  MemoryMeter& memory = c_.parts.device->memory();
  memory.sample_outside_bytes();
  c_.state.peak_bytes = std::max(c_.state.peak_bytes, memory.peak().total_bytes());
}

Progress TrainingLoop::progress() const {
  Progress now = progress_of(c_.state, c_.parts.stream.size());
  now.seconds = seconds_now();
  return now;
}

Progress TrainingLoop::progress_with_pending() const {
  Progress now = progress();
  if (underway_.figures.valid()) ++now.updates;
  return now;
}

double TrainingLoop::epoch() const {
  return static_cast<double>(c_.state.cursor) / static_cast<double>(c_.parts.stream.size());
}

double TrainingLoop::seconds_now() const {
  return seconds_before_ + steady_seconds() - session_start_;
}

}  // namespace autotrain
