#include "plan/probe.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "base/units.h"
#include "data/cost_order.h"
#include "data/join.h"
#include "device/call_seconds.h"
#include "device/generators.h"
#include "device/kernel_caches.h"
#include "device/system_memory.h"
#include "plan/plan_json.h"
#include "plan/scopes.h"
#include "plan/search.h"

namespace autotrain {
namespace {

Stream stream_of_worst(Workbench& bench) {
  return has_costs(*bench.data.train)
             ? Stream(bench.stream.seed(), bench.data.train->size(), /*shuffle=*/false)
             : bench.stream;
}

// How a trial went that several ranks made: as on the one where it went worst, and no faster than the
// slowest.
ProbeRecord worst_of(const std::vector<ProbeRecord>& trials) {
  const auto badness = [](const ProbeRecord& trial) {
    return std::tuple(!trial.fits(), trial.peak_bytes, trial.refused_bytes);
  };
  ProbeRecord worst = *std::ranges::max_element(trials, {}, badness);
  for (const ProbeRecord& trial : trials) {
    worst.typical_bytes = std::max(worst.typical_bytes, trial.typical_bytes);
    worst.seconds = std::max(worst.seconds, trial.seconds);
    worst.samples_per_second = std::min(worst.samples_per_second, trial.samples_per_second);
    worst.pass_samples_per_second = std::min(worst.pass_samples_per_second, trial.pass_samples_per_second);
    worst.load_seconds_per_sample = std::max(worst.load_seconds_per_sample, trial.load_seconds_per_sample);
    worst.weight = std::max(worst.weight, trial.weight);
    worst.confirmed = worst.confirmed && trial.confirmed;
  }
  return worst;
}

// Whether a lane cannot stand for all of them, since the loss compares their samples.
bool compares_lanes(Task& task) {
  return task.makes_passes() && !task.splittable();
}

MemoryPeak higher_of(const MemoryPeak& a, const MemoryPeak& b) {
  return {.allocated_bytes = std::max(a.allocated_bytes, b.allocated_bytes),
          .reserved_bytes = std::max(a.reserved_bytes, b.reserved_bytes),
          .outside_bytes = std::max(a.outside_bytes, b.outside_bytes),
          .retries = a.retries + b.retries};
}

// Whether the passes of one update took clearly more or less than the same passes of another one.
bool differ(const std::vector<int64_t>& peaks, const std::vector<int64_t>& others) {
  constexpr double kAlike = 1.02;
  return !std::ranges::equal(peaks, others, [](int64_t a, int64_t b) {
    return static_cast<double>(std::max(a, b)) <= kAlike * static_cast<double>(std::min(a, b));
  });
}

// Main memory that trials may hold samples in.
int64_t bytes_to_keep() {
  constexpr int64_t kShare = 8;
  return tightest(memory_bounds(ResourceLimits::of_this_process())).available_bytes() / kShare;
}

}  // namespace

ProbeOutcome outcome_of(Failure failure) {
  switch (failure) {
    case Failure::kOutOfMemory: return ProbeOutcome::kRefused;
    case Failure::kLibraryMemory: return ProbeOutcome::kLibrary;
    case Failure::kIndexLimit: return ProbeOutcome::kIndexLimit;
    case Failure::kOther: break;
  }
  throw std::logic_error("an error that is not about memory is no outcome of a trial");
}

void begin_trial(MemoryMeter& memory) {
  memory.empty_cache();
  memory.sample_outside_bytes();
  memory.reset_peak();
}

void raise_to(ProbeRecord& record, const MemoryPeak& peak) {
  record.peak_bytes = std::max(record.peak_bytes, peak.total_bytes());
  record.allocated_bytes = std::max(record.allocated_bytes, peak.allocated_bytes);
  record.outside_bytes = std::max(record.outside_bytes, peak.outside_bytes);
}

std::vector<Piece> trial_pieces(const Piece& window, int64_t micro_batch) {
  const std::vector<Piece> cut = WindowCut{window.samples(), micro_batch}.cut(window);
  std::vector<Piece> pieces = {cut.front()};
  if (cut.size() >= 2 && cut[1].samples() == micro_batch) pieces.push_back(cut[1]);
  if (cut.back().samples() != cut.front().samples()) pieces.push_back(cut.back());
  return pieces;
}

Probe::Probe(Workbench& bench, UpdateStep& step, double target_high)
    : bench_(bench), step_(step), target_high_(target_high), train_(*bench.data.train) {
  if (makes_batches(train_))
    worst_batches_.emplace(train_, stream_of_worst(bench), loading_timed(), bytes_to_keep());
  if (bench.data.validation == nullptr) return;
  validation_.emplace(*bench.data.validation);
  if (!makes_batches(*validation_)) return;
  const Stream in_order(0, validation_->size(), /*shuffle=*/false);
  evaluation_batches_.emplace(*validation_, in_order, loading(), bytes_to_keep());
}

ProbeRecord Probe::run(const TrialShape& shape, const ExtendTrial& extend) {
  const Stopwatch watch;
  MemoryMeter& memory = bench_.device->memory();
  begin_trial(memory);
  library_error_.clear();
  set_apart_ = {};
  draws_ = false;
  ProbeRecord record;
  record.micro_batch = shape.micro_batch;
  try {
    const GeneratorScope generators(bench_.device->torch_device());
    const TensorScope scaler(bench_.scaler.state());
    const RecordingScope recordings(step_);
    const LargestInputsScope largest(step_);
    const WindowScope window(step_);
    measure(shape, extend, record);
  } catch (const std::exception& error) {
    const Failure failure = classify_failure(error);
    if (failure == Failure::kOther) throw;
    bench_.ranks->share(error);
    const int64_t samples = record.samples;
    record = ProbeRecord{};
    record.micro_batch = shape.micro_batch;
    record.samples = samples;
    record.outcome = outcome_of(failure);
    if (failure != Failure::kOutOfMemory) library_error_ = first_line(error);
  }
  beside_.clear();
  if (worst_batches_) worst_batches_->end_trial();
  if (evaluation_batches_) evaluation_batches_->end_trial();
  refusal_ = memory.last_refusal();
  if (record.outcome == ProbeOutcome::kRefused && refusal_) record.refused_bytes = refusal_->total_bytes();
  record.seconds = watch.seconds();
  return agreed(record);
}

ProbeRecord Probe::agreed(const ProbeRecord& mine) {
  if (!bench_.ranks->several()) return mine;
  std::vector<ProbeRecord> all;
  for (const Ranks::Note& note : bench_.ranks->meet(probe_to_json(mine)))
    all.push_back(probe_from_json(note));
  const auto of_this_size = [&](const ProbeRecord& trial) { return trial.micro_batch == mine.micro_batch; };
  check_invariant(std::ranges::all_of(all, of_this_size), "all ranks try one size");
  return worst_of(all);
}

void Probe::measure(const TrialShape& shape, const ExtendTrial& extend, ProbeRecord& record) {
  set_training(bench_.task->module());
  stand_beside(*bench_.data.train, /*several=*/true);
  if (!run_worst(shape, extend, record)) return;
  if (has_costs(*bench_.data.train)) run_mixed(shape, record);
  record.confirmed = record.outcome != ProbeOutcome::kRetried;
}

std::vector<Batch> Probe::load_window(const TrialShape& shape) {
  const Pieces pieces = worst_pieces(shape.window_samples, shape.micro_batch);
  TrialFeed feed = feed_worst(pieces);
  std::vector<Batch> batches;
  for (const Piece& piece : pieces) {
    const Batch batch = feed.next(piece);
    batches.push_back(bench_.loader.pin ? pinned(batch) : batch);
  }
  return batches;
}

// The pieces of the window that `stream_of_worst` begins with.
Probe::Pieces Probe::worst_pieces(int64_t samples, int64_t micro_batch) {
  if (worst_.samples() != samples) {
    worst_ = has_costs(*bench_.data.train) ? costliest_window(*bench_.data.train, samples)
                                           : consecutive(0, samples);
  }
  // What the task does with all of them together is measured with all of them.
  if (bench_.task->makes_passes()) return WindowCut{worst_.samples(), micro_batch}.cut(worst_);
  return trial_pieces(worst_, micro_batch);
}

// False when it ended after one update, or ran only after the caches had been emptied. The second update has
// what the first one compiled and left between its blocks; a third one would be like it.
bool Probe::run_worst(const TrialShape& shape, const ExtendTrial& extend, ProbeRecord& record) {
  const Pieces pieces = worst_pieces(shape.window_samples, shape.micro_batch);
  TrialFeed feed = feed_worst(pieces);
  update(feed, pieces, 0, record);
  const std::vector<int64_t> first = pass_peaks_;
  take_peak(record);
  const ProbeRecord so_far = agreed(record);
  if (so_far.outcome == ProbeOutcome::kRetried || !extend(so_far)) return false;
  if (make_recorder_) {
    step_.record_with(make_recorder_());
    for (int64_t window = 2; window < 4; ++window)
      update(feed, pieces, window, record);  // done, then recorded
  }
  update(feed, pieces, 1, record);
  if (on_any_rank(draws_ && differ(first, pass_peaks_))) run_other_draws(feed, pieces, record);
  run_smaller_windows(shape, pieces, record);
  if (shape.evaluation_micro_batch > 0) evaluate(shape);
  take_peak(record);
  return agreed(record).outcome != ProbeOutcome::kRetried;
}

bool Probe::on_any_rank(bool mine) {
  if (!bench_.ranks->several()) return mine;
  bool any = false;
  for (const Ranks::Note& note : bench_.ranks->meet(mine)) any = note.get<bool>() || any;
  return any;
}

// The same samples with other random numbers, which may decide how much memory a pass takes, as where layers
// are left out at random: the largest peak of several draws says more than that of two. The first update
// alone may have been another one, since libraries allocate in it for good.
void Probe::run_other_draws(TrialFeed& feed, const Pieces& pieces, ProbeRecord& record) {
  constexpr int64_t kFirst = 5, kDraws = 8;  // windows that no other update of a trial is seeded for
  constexpr int64_t kEnoughAlike = 3;
  const double rate = record.samples_per_second, pass_rate = record.pass_samples_per_second;
  const std::vector<int64_t> second = pass_peaks_;
  bool vary = false;
  for (int64_t i = 0; i < kDraws; ++i) {
    if (i == kEnoughAlike && !on_any_rank(vary)) break;
    update(feed, pieces, kFirst + i, record);
    vary = differ(second, pass_peaks_) || vary;
  }
  record.samples_per_second = rate;
  record.pass_samples_per_second = pass_rate;
  if (!vary || std::exchange(told_of_draws_, true)) return;
  log::warn("plan", cat("random numbers that the model draws decide how much memory a pass takes: sizes are "
                        "tried with ",
                        kDraws + 2, " draws, and the largest peak counts; a rare draw may take more"));
}

// Smaller updates add sizes that no other update has.
void Probe::run_smaller_windows(const TrialShape& shape, Pieces known, ProbeRecord& record) {
  // Of the updates that most windows are like.
  const double rate = record.samples_per_second, pass_rate = record.pass_samples_per_second;
  for (const int64_t samples : shape.smaller_windows) {
    Pieces pieces = worst_pieces(samples, std::min(shape.micro_batch, samples));
    if (!bench_.task->makes_passes())
      std::erase_if(pieces, [&](const Piece& piece) {
        return std::ranges::count(known, piece.samples(), &Piece::samples) > 0;
      });
    if (pieces.empty()) continue;
    TrialFeed feed = feed_worst(pieces);
    update(feed, pieces, 4, record);
    known.insert(known.end(), pieces.begin(), pieces.end());
  }
  record.samples_per_second = rate;
  record.pass_samples_per_second = pass_rate;
}

// Runs the stream's first window, and then looks whether the worst one still fits between the blocks that
// other shapes left.
void Probe::run_mixed(const TrialShape& shape, ProbeRecord& record) {
  MemoryMeter& memory = bench_.device->memory();
  stand_beside(*bench_.data.train, /*several=*/true);
  memory.empty_cache();
  const int64_t outside = memory.sample_outside_bytes();
  memory.reset_peak();
  set_apart_ = {};
  const Pieces typical =
      trial_pieces(window_of(*bench_.data.train, bench_.stream, 0, shape.window_samples), shape.micro_batch);
  if (makes_batches(*bench_.data.train)) {
    TrialBatches batches(*bench_.data.train, bench_.stream, loading(), bytes_to_keep());
    TrialFeed feed(batches);
    update(feed, typical, 2, record);
  } else {
    TrialFeed feed(*bench_.data.train, bench_.stream, repeated(typical), loading());
    update(feed, typical, 2, record);
  }
  record.typical_bytes = peak().total_bytes();
  const int64_t grown = memory.sample_outside_bytes() - outside;
  const Pieces worst = worst_pieces(shape.window_samples, shape.micro_batch);
  TrialFeed feed = feed_worst(worst);
  update(feed, worst, 3, record);
  take_peak(record);
  record.growth_bytes = expected_growth(grown / std::ssize(typical));
  record.peak_bytes += record.growth_bytes;
  judge(record, bench_.device->budget_bytes(), target_high_);
}

// Estimates what kernels for the lengths that no trial had may come to take when each new shape takes `each`.
// It is no more than libraries are allowed to keep.
int64_t Probe::expected_growth(int64_t each) {
  if (each <= 0 || !bench_.device->torch_device().is_cpu()) return 0;
  if (lengths_ == 0) lengths_ = distinct_costs(*bench_.data.train);
  return std::min(each * lengths_, kernel_cache_bytes(bench_.device->budget_bytes()));
}

// Whether its batches can be made when a trial needs them: where they take nothing of the budget, it need not
// wait until as many are prepared ahead as in the run.
bool Probe::makes_batches(const Dataset& dataset) const {
  return !bench_.device->counts_main_memory() && !dataset.on_device();
}

TrialFeed Probe::feed_worst(const Pieces& pieces) {
  if (worst_batches_) return TrialFeed(*worst_batches_);
  return {train_, stream_of_worst(bench_), repeated(pieces), loading_timed()};
}

// With all the threads that the run may come to.
Loader::Options Probe::loading() {
  Loader::Options options = bench_.loader;
  if (options.workers > 0) options.workers = std::max(options.workers, bench_.most_workers);
  return options;
}

Loader::Options Probe::loading_timed() {
  Loader::Options options = loading();
  options.on_loaded = [this](int64_t, double start, double end, int64_t samples) {
    loads_.add(end - start, samples);
  };
  return options;
}

// From here on, uploaded batches stand beside the one that is worked on, if there are `several` in the run.
void Probe::stand_beside(const Dataset& dataset, bool several) {
  beside_.clear();
  batches_beside_ = several && !dataset.on_device() ? bench_.device->batches_ahead() : 0;
}

Batch Probe::upload(const Batch& batch) {
  while (std::ssize(beside_) < batches_beside_) beside_.push_back(bench_.device->upload(batch));
  return bench_.device->upload(batch);
}

// Once the work on it is queued. In the run it is the next batch that stands beside it, which is the same to
// memory. The one before is given up while there is still something to wait for, so that the next upload has
// its memory.
void Probe::keep_beside(const Batch& there) {
  beside_.push_back(there);
  while (std::ssize(beside_) > batches_beside_) beside_.pop_front();
}

void Probe::update(TrialFeed& feed, const Pieces& pieces, int64_t window, ProbeRecord& record) {
  MemoryMeter& memory = bench_.device->memory();
  const Stopwatch watch;
  double passes = 0;  // seconds, without loading and copying, which go on beside them in the run
  int64_t offset = 0, last = 0;
  const bool later = bench_.task->makes_passes();  // when all batches are there
  pass_peaks_.clear();
  const auto note_pass = [&] {
    pass_peaks_.push_back(memory.peak().allocated_bytes);
    if (!make_recorder_) draws_ = draws_ || drew(window, last);
  };
  const auto accumulate = [&](const Piece& piece) {
    stop_if_interrupted("plan", "a signal stopped the search; nothing was trained yet");
    const Batch batch = feed.next(piece);
    memory.sample_outside_bytes();  // while decoders have what they need
    feed.wait_until_full();
    const Batch there = upload(batch);
    last = offset;
    if (!later) set_apart_peak();
    passes += seconds_of_call(*bench_.device, [&] {
                step_.accumulate(there, window, offset);
                keep_beside(there);
              }).whole;
    if (!later) note_pass();
    memory.sample_outside_bytes();
    if (window == 0 && offset == 0 && !later) record.weight = step_.lane_weight();
    offset += piece.samples();
    record.samples += piece.samples();
  };
  if (later) set_apart_peak();
  const bool together = compares_lanes(*bench_.task);
  for (int64_t lane = 0; lane < (together ? bench_.lanes.count : 1); ++lane) {
    if (lane > 0) step_.end_lane();
    std::ranges::for_each(pieces, accumulate);
  }
  passes += seconds_of_call(*bench_.device, [&] { step_.end_lanes(); }).whole;
  if (later) note_pass();
  if (window == 0 && later)
    record.weight =
        step_.lane_weight() / static_cast<double>(std::ssize(pieces) * (together ? bench_.lanes.of : 1));
  step_.meet();
  passes += seconds_of_call(*bench_.device, [&] {
              step_.prepare(0, UpdateStep::Apply::kForceSkip);
              PendingUpdate pending = step_.commit();
              check_invariant(pending.valid(), "a trial's update ran");
              pending.read();
            }).whole;
  const auto samples = static_cast<double>(offset);
  record.pass_samples_per_second = samples / passes;
  record.samples_per_second = samples / (feed.loads_as_the_run() ? watch.seconds() : passes);
  if (const double typical = loads_.take_typical(); typical > 0) load_seconds_ = typical;
  // What is gathered on the device costs no thread's time.
  record.load_seconds_per_sample = bench_.data.train->on_device() ? 0 : load_seconds_;
  memory.sample_outside_bytes();
}

void Probe::evaluate(const TrialShape& shape) {
  const Dataset& data = *validation_;
  const int64_t samples = std::min(shape.evaluation_micro_batch, data.size());
  stand_beside(data, samples < data.size());
  const PieceSource pieces = one_pass(data, samples);
  Piece last = *pieces();
  evaluate_next(last, one_pass(data, samples));
  if (data.size() % samples == 0) return;
  while (std::optional<Piece> piece = pieces()) last = *std::move(piece);
  evaluate_next(last, [last = std::optional(last)]() mutable { return std::exchange(last, std::nullopt); });
}

// This piece, the first of `pieces`, while those behind it are prepared.
void Probe::evaluate_next(const Piece& piece, PieceSource pieces) {
  const Dataset& data = *validation_;
  torch::nn::Module& module = bench_.task->module();
  const Stream in_order(0, data.size(), /*shuffle=*/false);
  TrialFeed feed = evaluation_batches_ ? TrialFeed(*evaluation_batches_)
                                       : TrialFeed(data, in_order, std::move(pieces), loading());
  const Batch batch = feed.next(piece);
  feed.wait_until_full();
  {
    const BufferScope buffers(*bench_.task);
    const EvaluationMode mode(module);
    const Batch there = upload(batch);
    evaluate_batch(*bench_.task, there, step_.options().precision);
    keep_beside(there);
  }
  bench_.device->synchronize();
  bench_.device->memory().sample_outside_bytes();
}

// From here on peaks are counted anew; those until now stay part of the trial's.
void Probe::set_apart_peak() {
  set_apart_ = peak();
  bench_.device->memory().reset_peak();
}

MemoryPeak Probe::peak() const {
  return higher_of(set_apart_, bench_.device->memory().peak());
}

// Whether the last pass drew random numbers: its generators are not as they were seeded for it.
bool Probe::drew(int64_t window, int64_t offset) const {
  const torch::Device device = bench_.device->torch_device();
  const GeneratorStates after(device);
  seed_for_micro_batch(device, step_.options().seed, window, offset);
  const bool drawn = !GeneratorStates(device).equal(after);
  after.put_back();
  return drawn;
}

void Probe::take_peak(ProbeRecord& record) const {
  const MemoryPeak highest = peak();
  raise_to(record, highest);
  judge(record, bench_.device->budget_bytes(), target_high_);
  if (highest.retries > 0) record.outcome = ProbeOutcome::kRetried;
}

}  // namespace autotrain
