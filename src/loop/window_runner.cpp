#include "loop/window_runner.h"

#include <algorithm>

#include "autotrain/log.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "base/units.h"
#include "device/failure.h"
#include "device/generators.h"
#include "device/memory_phase.h"
#include "loop/out_of_memory.h"
#include "loop/recompute_instead.h"
#include "plan/cut.h"
#include "plan/operation_trace.h"
#include "plan/plan_json.h"
#include "plan/planner.h"
#include "plan/scopes.h"
#include "plan/search.h"
#include "step/autocast.h"
#include "step/gathered_rows.h"
#include "step/loss_terms.h"

namespace autotrain {
namespace {

// So many windows that needed a smaller micro-batch, among so many, make it part of the plan.
constexpr size_t kShrunkWindows = 3;
constexpr int64_t kStretchWindows = 200;

// Where the recipe gives the number of threads, that is it.
WorkerTuner tuner_for(const Recipe& recipe, const Workbench& bench) {
  const int64_t workers = bench.loader.workers;
  if (recipe.execution.loader.workers || workers == 0) return {workers, workers, workers};
  return {workers, 1, bench.most_workers};
}

}  // namespace

bool accumulate_window(Workbench& bench, Loader& loader, const WindowCut& cut, int64_t window) {
  const int64_t end = bench.lanes.first + bench.lanes.count;
  for (int64_t lane = bench.lanes.first; lane < end; ++lane) {
    for (int64_t offset = cut.lane_offset(lane); offset < cut.lane_offset(lane + 1);) {
      if (pending_interrupt() == Interrupt::kStop) return false;
      // What is gathered on the device is its work, and no waiting.
      bench.timeline.enter(bench.data.train->on_device() ? Activity::kCopy : Activity::kDataWait);
      const std::optional<Batch> batch = loader.next();
      bench.timeline.enter(Activity::kCopy);
      bench.step.accumulate(bench.device->upload(*batch), window, offset);
      offset += batch->samples;
    }
    bench.step.end_lane();
  }
  return true;
}

WindowRunner::WindowRunner(Session& session, Saver& saver, const UpdateTimes& times)
    : session_(session),
      saver_(saver),
      times_(times),
      plan_(session.plan),
      bench_(session.bench),
      state_(session.state),
      tuner_(tuner_for(session.recipe, bench_)),
      micro_batch_(plan_.micro_batch),
      measures_noise_(may_measure_noise(session.recipe, *bench_.data.train)) {}

WindowRunner::End WindowRunner::run(int64_t samples, const Decide& decide, QueuedUpdate& queued) {
  if (!loader_ || samples != loader_window_) open_loader(samples);  // another stage, or a shorter last window
  for (bool done = false; !done;) {
    const Attempt accumulated = attempt(samples, [&] { return accumulate_together(samples); });
    if (accumulated == Attempt::kStopped) return End::kStopped;
    if (accumulated == Attempt::kAgain) continue;
    const std::optional<Application> how = decide();
    if (!how) {
      bench_.step.abandon();
      return End::kDropped;
    }
    done = attempt(samples, [&] { return queue_update(samples, *how, queued), true; }) == Attempt::kDone;
  }
  keep_or_restore_micro_batch();
  tell_why_not_recorded();
  return End::kQueued;
}

// A trial recorded everything, so this is seldom.
void WindowRunner::tell_why_not_recorded() {
  if (bench_.step.why_not_recorded().empty() || std::exchange(told_why_not_recorded_, true)) return;
  log::info("trainer", cat("CUDA graphs: no; ", bench_.step.why_not_recorded()));
}

// Their memory is what may be lacking.
void WindowRunner::stop_recording() {
  if (!bench_.step.records()) return;
  bench_.step.stop_recording();
  log::info("trainer", "CUDA graphs: no more of them; memory ran out");
}

void WindowRunner::restart() {
  attempts_.begin_anew();
  micro_batch_ = plan_.micro_batch;
  loader_.reset();
}

void WindowRunner::tune_loader(int64_t samples, double seconds, double waited) {
  const int64_t workers = tuner_.after_update({.samples = samples,
                                               .seconds = seconds,
                                               .wait_seconds = waited,
                                               .load_seconds_per_sample = load_times_.take_mean()});
  if (workers == bench_.loader.workers) return;
  log::info("data", cat("loading in ", workers, " threads from update ", state_.position.updates + 1, " on"));
  bench_.loader.workers = workers;
  if (loader_) loader_->set_workers(workers);
}

void WindowRunner::open_loader(int64_t window_samples) {
  loader_.reset();  // its batches must be gone before the next one prepares its own
  const WindowCut cut = cut_of(window_samples);
  Loader::Options options = bench_.loader;
  times_.follow(options);
  options.on_loaded = [this, follow = options.on_loaded](int64_t worker, double start, double end,
                                                         int64_t loaded) {
    load_times_.add(end - start, loaded);
    if (follow) follow(worker, start, end, loaded);
  };
  loader_ = std::make_unique<Loader>(
      *bench_.data.train, bench_.stream,
      endless_windows(*bench_.data.train, bench_.stream, cut, state_.position.cursor), std::move(options));
  loader_window_ = window_samples;
}

WindowRunner::Attempt WindowRunner::attempt(int64_t samples, const std::function<bool()>& part) {
  try {
    return part() ? Attempt::kDone : Attempt::kStopped;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    if (!lacks_memory(error) || !bench_.step.replayable()) throw;
    bench_.ranks->share(error);
    prepare_another_attempt(error, samples);
    return Attempt::kAgain;
  }
}

// False when a signal stopped it.
bool WindowRunner::accumulate(int64_t samples) {
  const WindowCut cut = cut_of(samples);
  set_statistics(cut);
  return accumulate_window(bench_, *loader_, cut, state_.position.windows);
}

void WindowRunner::set_statistics(const WindowCut& cut) {
  if (!measures_noise_ || !has_parts(cut)) return bench_.step.set_statistics(false);
  Position& position = state_.position;
  if (position.noise_from < 0) position.noise_from = position.windows;
  const int64_t window = position.windows - position.noise_from;
  noise_strides_ = noise_strides(window);
  bench_.step.set_statistics(is_measured(window, noise_strides_.plain),
                             is_measured(window, noise_strides_.preconditioned));
}

// False when this rank or another one stops.
bool WindowRunner::accumulate_together(int64_t samples) {
  const Stopwatch watch;
  bench_.ranks->enter("forward and backward");
  const GatheringScope gathering(patience());
  const bool whole = accumulate(samples);
  ++windows_;
  if (!bench_.ranks->several()) {
    stopped_by_ = whole ? StopReason::kNone : StopReason::kSignal;
  } else {
    // A GPU is still at work when its passes are queued.
    const bool on_cpu = bench_.device->torch_device().is_cpu();
    const double own = watch.seconds() - gathering.waited_seconds();
    const double seconds = on_cpu ? own : std::max(own, session_.device_seconds);
    stopped_by_ = session_.take(bench_.step.meet(session_.note_of_window(seconds), patience()));
    if (windows_ > 1) slowest_ = std::max(slowest_, session_.rank_times.slowest);
    bench_.ranks->enter("update");
    delayed_ = false;
  }
  if (stopped_by_ == StopReason::kNone) return true;
  bench_.step.abandon();
  return false;
}

// How long the slowest rank may take. The first windows compile kernels, and nobody knows how long that
// takes.
double WindowRunner::patience() const {
  constexpr int64_t kKnown = 3;
  return windows_ <= kKnown || delayed_ ? Ranks::kLongest : 3 * slowest_ + 10;
}

void WindowRunner::queue_update(int64_t samples, const Application& how, QueuedUpdate& queued) {
  bench_.average.set_update_samples(samples);
  // A recorded update has no place between the two.
  const bool may_be_moved = !bench_.task->idle_after_step() && !bench_.step.records();
  bench_.average.wait(bench_.device->torch_device().is_cpu() || may_be_moved);
  bench_.step.prepare(how.lr);
  std::string first_non_finite = how.name_non_finite ? bench_.step.first_non_finite_gradient() : "";
  std::string first_buffer = how.name_non_finite ? bench_.step.first_non_finite_buffer() : "";
  bench_.ranks->meet({});  // no rank moves a parameter before every rank can
  queued = {.figures = bench_.step.commit(),
            .lr = how.lr,
            .first = state_.position.cursor,
            .samples = samples,
            .ranks = session_.rank_times,
            .noise_strides = noise_strides_,
            .first_non_finite = std::move(first_non_finite),
            .first_buffer = std::move(first_buffer)};
  bench_.timeline.enter(Activity::kOther);
  queued.stretch = bench_.timeline.cut();
  ++state_.position.windows;
  state_.position.cursor += samples;
  saver_.mark_changed();
}

void WindowRunner::prepare_another_attempt(const std::exception& error, int64_t samples) {
  bench_.step.abandon();
  stop_recording();
  loader_.reset();
  expect_delay();  // a rank that writes a checkpoint ends that first
  const std::optional<Refusal> refusal = free_memory(session_, saver_);
  const bool stop = session_.recipe.execution.recovery == Recovery::kStop;
  int64_t next = attempts_.after_failure(micro_batch_, [&] { return smaller_micro_batch(samples); });
  if (next == 0 && !stop && recompute_instead(session_)) {
    next = micro_batch_;
    state_.position.shrunk_windows.clear();  // they were shrunk for want of it
  }
  if (stop || next == 0) {
    const std::string layer = next == 0 ? layer_out_of_memory(samples) : "";
    throw out_of_memory(bench_, plan_, error, refusal, "training", micro_batch_, layer);
  }
  micro_batch_ = next;
  ++state_.totals.recoveries;
  session_.note(EventKind::kOutOfMemory,
                cat("window ", state_.position.windows, ": ", first_line(error), "; its ", samples,
                    " samples are run again in micro-batches of ", micro_batch_));
  open_loader(samples);
}

// 0 when there is none.
int64_t WindowRunner::smaller_micro_batch(int64_t samples) const {
  const int64_t minimum = smallest_batch(bench_.task->module());
  if (micro_batch_ <= minimum) return 0;
  if (!bench_.task->splittable() && !bench_.task->makes_passes()) return 0;
  const int64_t share = ceil_div(samples, plan_.lanes);
  const int64_t half = std::max(minimum, micro_batch_ / 2);
  // For a size that was run before, nothing new has to be compiled, and it is known what it takes.
  const ProbeRecord* const known = fit_below(plan_.search.probes, half + 1);
  if (known != nullptr && 2 * known->micro_batch >= half &&
      smallest_remainder(samples, plan_.lanes, known->micro_batch) >= minimum)
    return known->micro_batch;
  return executed_micro_batch({.share = share,
                               .capacity = half,
                               .cut = plan_.cut,
                               .minimum = minimum,
                               .uneven = samples % plan_.lanes != 0});
}

// The window is done. If it took a smaller micro-batch, the next one has the plan's again, unless that is
// what happens all the time.
void WindowRunner::keep_or_restore_micro_batch() {
  attempts_.begin_anew();
  if (micro_batch_ == plan_.micro_batch) return;
  std::vector<int64_t>& shrunk = state_.position.shrunk_windows;
  const int64_t windows = state_.position.windows;
  shrunk.push_back(windows);
  std::erase_if(shrunk, [&](int64_t window) { return window <= windows - kStretchWindows; });
  if (shrunk.size() >= kShrunkWindows) {
    shrunk.clear();
    adopt_micro_batch(micro_batch_);
  }
  restart();
}

void WindowRunner::adopt_micro_batch(int64_t micro_batch) {
  session_.note(EventKind::kPlan,
                cat("micro-batch ", plan_.micro_batch, " → ", micro_batch, " from now on: memory ran out in ",
                    kShrunkWindows, " of the last ", kStretchWindows, " windows"));
  plan_.micro_batch = micro_batch;
  plan_.window = WindowCut{plan_.effective_batch, micro_batch, bench_.lanes}.most_pieces();
  describe_stages(session_.recipe, session_.stages, bench_.lanes, plan_);
  plan_.confirmed = false;  // it ran in this run, but not in a trial
  if (session_.folder) session_.folder->write_json("plan.json", plan_to_json(plan_));
}

void WindowRunner::call_begin_update(const UpdateInfo& info) {
  const StepOptions& options = bench_.step.options();
  seed_for_place(options.device, options.seed, PlaceToAct::kBeginUpdate, info.samples);
  bench_.task->begin_update(info);
}

void WindowRunner::tell(const UpdateInfo& info) {
  const GeneratorScope generators(bench_.device->torch_device());
  const BufferScope buffers(*bench_.task);
  call_begin_update(info);
}

double WindowRunner::first_loss(int64_t samples, const UpdateInfo& info) {
  restart();
  const GeneratorScope generators(bench_.device->torch_device());
  const BufferScope buffers(*bench_.task);
  open_loader(samples);
  const Batch batch = bench_.device->upload(*loader_->next());
  const StepOptions& options = bench_.step.options();
  call_begin_update(info);  // which decides what the loss is: whose turn it is, a weight that rises
  seed_for_micro_batch(options.device, options.seed, state_.position.windows, 0);
  const AutocastScope autocast(options.device.type(), options.precision);
  const double loss = loss_terms(*bench_.task, batch).sum.item<double>();
  restart();
  return loss;
}

// Where the smallest micro-batch fails, if its forward pass does. For a run that is about to end.
std::string WindowRunner::layer_out_of_memory(int64_t samples) {
  std::string layer;
  if (cut_of(samples).share() == 0) return layer;
  try {
    const BufferScope buffers(*bench_.task);
    open_loader(samples);  // its first micro-batch is the costliest
    const Batch batch = bench_.device->upload(*loader_->next());
    const PhaseScope phase(MemoryPhase::kForward);
    layer = where_forward_throws(*bench_.task, batch, plan_.precision).module;
  } catch (const std::exception&) {
    // The samples themselves do not fit, so there is no layer to name.
  }
  loader_.reset();
  return layer;
}

}  // namespace autotrain
