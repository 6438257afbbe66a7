// What may befall a run, and how the loop gets over it: the other half of training_loop.cpp.
#include <algorithm>
#include <cmath>

#include "autotrain/log.h"
#include "base/text.h"
#include "base/units.h"
#include "device/failure.h"
#include "device/memory_phase.h"
#include "plan/cut.h"
#include "plan/operation_trace.h"
#include "plan/plan_json.h"
#include "plan/planner.h"
#include "plan/scopes.h"
#include "plan/search.h"
#include "trainer/out_of_memory.h"
#include "trainer/snapshot.h"
#include "trainer/training_loop.h"

namespace autotrain {
namespace {

// So many windows that needed a smaller micro-batch, among so many, make it part of the plan.
constexpr size_t kShrunkWindows = 3;
constexpr int64_t kStretchWindows = 200;

bool lacks_memory(const std::exception& error) {
  const Failure failure = classify_failure(error);
  return failure == Failure::kOutOfMemory || failure == Failure::kLibraryMemory;
}

}  // namespace

// ------------------------------------------------------------------ memory

TrainingLoop::Attempt TrainingLoop::attempt(int64_t samples, const std::function<bool()>& part) {
  try {
    return part() ? Attempt::kDone : Attempt::kStopped;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    if (!lacks_memory(error) || !c_.parts.step.replayable()) throw;
    prepare_another_attempt(error, samples);
    return Attempt::kAgain;
  }
}

// The first time at the same size, from emptied caches: what was lacking may be there again, and the same cut
// gives the same bits. From then on with at most half as many samples at a time.
void TrainingLoop::prepare_another_attempt(const std::exception& error, int64_t samples) {
  c_.parts.step.abandon();
  loader_.reset();
  const std::optional<Refusal> refusal = free_memory();
  const bool stop = c_.recipe.execution.recovery == Recovery::kStop;
  const int64_t smaller = attempts_ > 0 ? smaller_micro_batch(samples) : micro_batch_;
  if (stop || smaller == 0) {
    const std::string layer = smaller == 0 ? layer_out_of_memory() : "";
    throw out_of_memory(c_.parts, c_.plan, error, refusal, "training", micro_batch_, layer);
  }
  micro_batch_ = smaller;
  ++attempts_;
  ++c_.state.recoveries;
  note("out_of_memory", cat("window ", c_.state.windows, ": ", first_line(error), "; its ", samples,
                            " samples are run again in micro-batches of ", micro_batch_));
  open_loader(samples);
}

// Everything that can be had back, a checkpoint's copy included. @return what had been refused.
std::optional<Refusal> TrainingLoop::free_memory() {
  MemoryMeter& memory = c_.parts.device->memory();
  const std::optional<Refusal> refusal = memory.last_refusal();
  if (writer_) writer_->wait();
  sample_memory();
  memory.empty_cache();
  memory.reset_peak();  // it is in the run's state; what is refused next is told apart from this
  return refusal;
}

// 0 when there is none.
int64_t TrainingLoop::smaller_micro_batch(int64_t samples) const {
  const int64_t minimum = has_batch_norm(c_.parts.task->module()) ? 2 : 1;
  if (micro_batch_ <= minimum || !c_.parts.task->splittable()) return 0;
  const int64_t share = samples / c_.plan.world_size;
  const int64_t half = std::max(minimum, micro_batch_ / 2);
  // For a size that was run before, nothing new has to be compiled, and it is known what it takes.
  const ProbeRecord* const known = fit_below(c_.plan.search.probes, half + 1);
  if (known != nullptr && 2 * known->micro_batch >= half &&
      remainder_of(share, known->micro_batch) >= minimum)
    return known->micro_batch;
  return executed_micro_batch({.share = share, .capacity = half, .cut = c_.plan.cut, .minimum = minimum});
}

// The window is done. If it took a smaller micro-batch, the next one has the plan's again, unless that is
// what happens all the time.
void TrainingLoop::after_attempts() {
  attempts_ = 0;
  if (micro_batch_ == c_.plan.micro_batch) return;
  std::vector<int64_t>& shrunk = c_.state.shrunk_windows;
  shrunk.push_back(c_.state.windows);
  std::erase_if(shrunk, [&](int64_t window) { return window <= c_.state.windows - kStretchWindows; });
  if (shrunk.size() >= kShrunkWindows) {
    shrunk.clear();
    adopt_micro_batch(micro_batch_);
  }
  micro_batch_ = c_.plan.micro_batch;
  open_loader(c_.plan.effective_batch);
}

void TrainingLoop::adopt_micro_batch(int64_t micro_batch) {
  note("plan",
       cat("micro-batch ", c_.plan.micro_batch, " → ", micro_batch, " from now on: memory ran out in ",
           kShrunkWindows, " of the last ", kStretchWindows, " windows"));
  c_.plan.micro_batch = micro_batch;
  c_.plan.window = WindowCut{c_.plan.effective_batch / c_.plan.world_size, micro_batch}.pieces();
  c_.plan.confirmed = false;  // it ran in this run, but not in a trial
  if (c_.folder) c_.folder->write_json("plan.json", plan_to_json(c_.plan));
}

// Where the smallest micro-batch fails, if its forward pass does. For a run that is about to end.
std::string TrainingLoop::layer_out_of_memory() {
  std::string layer;
  try {
    const BufferScope buffers(c_.parts.task->module());
    open_loader(next_window_samples());  // its first micro-batch is the costliest
    const Batch batch = c_.parts.device->upload(*loader_->next());
    const PhaseScope phase(MemoryPhase::kForward);
    layer = where_forward_throws(*c_.parts.task, batch, c_.plan.precision).module;
  } catch (const std::exception&) {
    // Not even its samples fit: there is no layer to name.
  }
  loader_.reset();
  return layer;
}

std::optional<Evaluation> TrainingLoop::evaluate_with_recovery(const std::function<bool(int64_t)>& proceed) {
  const AveragedWeights averaged(c_.parts.average);
  for (int attempts = 0;; ++attempts) {
    try {
      return evaluate(c_.parts.workbench(), c_.plan.evaluation_micro_batch, proceed);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      if (!lacks_memory(error)) throw;
      prepare_another_evaluation(error, attempts);
    }
  }
}

// As for windows, but a size that was needed once is kept: evaluations are few, and long.
void TrainingLoop::prepare_another_evaluation(const std::exception& error, int attempts) {
  const std::optional<Refusal> refusal = free_memory();
  int64_t& size = c_.plan.evaluation_micro_batch;
  const bool stop = c_.recipe.execution.recovery == Recovery::kStop;
  if (stop || (attempts > 0 && size <= 1))
    throw out_of_memory(c_.parts, c_.plan, error, refusal, "evaluation", size, "");
  if (attempts > 0) size = std::max<int64_t>(1, size / 2);
  ++c_.state.recoveries;
  note("out_of_memory",
       cat("evaluation: ", first_line(error), "; it starts again in micro-batches of ", size));
}

// ------------------------------------------------------------------ numbers that are not finite

// The loss scaler of fp16 looks for the largest scale by overflowing now and then: that is no divergence.
void TrainingLoop::consider_divergence(const UpdateOutcome& outcome) {
  const bool by_the_scaler = c_.plan.precision == Precision::kFp16 && std::isfinite(outcome.loss) &&
                             outcome.scale > c_.recipe.execution.scaler.min_scale;
  const DivergencePolicy policy = c_.recipe.divergence.policy;
  const bool at_once = policy == DivergencePolicy::kStop && !by_the_scaler;
  if (!at_once && c_.state.consecutive_skips < c_.recipe.stop.max_skipped) return;
  if (policy != DivergencePolicy::kRollback) throw diverged(outcome);
  roll_back_for_ = outcome;
}

Error TrainingLoop::diverged(const UpdateOutcome& outcome, const std::string& why_here) const {
  const std::string gradient =
      first_non_finite_.empty() ? "" : ", the gradient of " + first_non_finite_ + " is the first that is not";
  const std::string layer = first_non_finite();
  const std::string rolled = c_.state.rollbacks > 0 ? cat(", after ", c_.state.rollbacks, " rollbacks") : "";
  return Error(
      ExitCode::kDiverged, cat("update ", c_.state.updates + 1),
      cat(c_.state.consecutive_skips,
          c_.state.consecutive_skips == 1 ? " update was" : " updates in a row were", " not finite", rolled,
          why_here, "; loss ", outcome.loss, ", gradient norm ", outcome.grad_norm, gradient,
          layer.empty() ? "" : "\n  first layer whose output is not finite: " + layer),
      cat("lower optimizer.lr, add optimizer.clip_norm or schedule.warmup, or use execution.precision: fp32",
          c_.recipe.divergence.policy == DivergencePolicy::kRollback ? ""
                                                                     : ", or divergence.policy: rollback"));
}

// The window's samples once more, cut as it was, looking at what every operation makes of them.
std::string TrainingLoop::first_non_finite() const {
  try {
    const torch::Device device = c_.parts.device->torch_device();
    const BufferScope buffers(c_.parts.task->module());
    Loader loader(*c_.parts.data.train, c_.parts.stream,
                  endless_windows(*c_.parts.data.train, c_.parts.stream,
                                  {underway_.samples, c_.plan.micro_batch}, underway_.first),
                  {.prefetch = 0, .channels_last = c_.parts.loader.channels_last});
    for (int64_t done = 0; done < underway_.samples;) {
      const std::optional<Batch> batch = loader.next();
      done += batch->samples;
      const Place place = autotrain::first_non_finite(*c_.parts.task, batch->to(device), c_.plan.precision);
      if (!place.operation.empty()) return cat(place.module, " (", place.operation, ")");
    }
  } catch (const std::exception& error) {
    log::debug("trainer", cat("looking for the first layer failed: ", first_line(error)));
  }
  return "";
}

// Back to the last checkpoint from before the weights that failed, and on from there with a smaller learning
// rate: a checkpoint of the same update, made before anyone knew or while windows were skipped, has the same
// weights. What is counted over the whole run stays counted; the rows that were written stay written.
void TrainingLoop::roll_back() {
  const UpdateOutcome outcome = *roll_back_for_;
  roll_back_for_.reset();
  c_.parts.step.abandon();
  if (c_.state.rollbacks >= c_.recipe.divergence.max_rollbacks || !c_.folder) throw diverged(outcome);
  writer_->wait();
  const auto newest = c_.folder->checkpoints().read_newest_state(c_.state.updates);
  if (!newest)
    throw diverged(outcome, cat(", and there is no checkpoint from before update ", c_.state.updates));

  const RunState before = c_.state;
  torn_ = true;  // until all of it is read
  load_tensors(c_.folder->checkpoints(), newest->first, c_.parts);
  torn_ = false;
  attempts_ = 0;
  micro_batch_ = c_.plan.micro_batch;
  c_.state = saved_run(newest->second).state;
  c_.state.consecutive_skips = 0;
  c_.state.skipped = before.skipped;
  c_.state.seconds = before.seconds;
  c_.state.training_seconds = before.training_seconds;
  c_.state.activity_seconds = before.activity_seconds;
  c_.state.checkpoint_stall_seconds = before.checkpoint_stall_seconds;
  c_.state.peak_bytes = before.peak_bytes;
  c_.state.recoveries = before.recoveries;
  c_.state.rollbacks = before.rollbacks + 1;
  c_.state.lr_factor = before.lr_factor * c_.recipe.divergence.lr_factor;
  evaluation_clock_ = IntervalClock(c_.recipe.evaluation.every, progress());
  checkpoint_clock_ = IntervalClock(c_.recipe.checkpoint.every, progress());
  note("rollback", cat("from update ", before.updates, " to ", c_.state.updates,
                       ", whose rows that follow here replace the earlier ones; learning rate × ",
                       brief(c_.state.lr_factor)));
  open_loader(c_.plan.effective_batch);
  checkpoint_now();  // in the place of the one it came from: a resume goes on from here
}

}  // namespace autotrain
