#include "plan/probe.h"

#include <algorithm>

#include "autotrain/error.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "data/cost_order.h"
#include "device/failure.h"
#include "plan/scopes.h"
#include "step/generators.h"

namespace autotrain {
namespace {

ProbeOutcome outcome_of(Failure failure) {
  switch (failure) {
    case Failure::kOutOfMemory: return ProbeOutcome::kRefused;
    case Failure::kLibraryMemory: return ProbeOutcome::kLibrary;
    case Failure::kIndexLimit: return ProbeOutcome::kIndexLimit;
    case Failure::kOther: break;
  }
  throw std::logic_error("an error that is not about memory is no outcome of a trial");
}

Stream stream_of_worst(const Workbench& bench) {
  return has_costs(bench.train) ? Stream(bench.stream.seed(), bench.train.size(), /*shuffle=*/false)
                                : bench.stream;
}

}  // namespace

std::vector<Piece> trial_pieces(const Piece& window, int64_t micro_batch) {
  const std::vector<Piece> cut = WindowCut{window.samples(), micro_batch}.cut(window);
  std::vector<Piece> pieces = {cut.front()};
  if (cut.size() >= 2 && cut[1].samples() == micro_batch) pieces.push_back(cut[1]);
  if (cut.back().samples() != cut.front().samples()) pieces.push_back(cut.back());
  return pieces;
}

Probe::Probe(const Workbench& bench, double target_high) : bench_(bench), target_high_(target_high) {}

ProbeRecord Probe::run(const TrialShape& shape, const Extend& extend) {
  const Stopwatch watch;
  MemoryMeter& memory = bench_.device.memory();
  memory.empty_cache();
  memory.sample_outside_bytes();
  memory.reset_peak();
  library_error_.clear();
  ProbeRecord record;
  record.micro_batch = shape.micro_batch;
  try {
    const GeneratorScope generators(bench_.device.torch_device());
    const ScalerScope scaler(bench_.scaler);
    const WindowScope window(bench_.step);
    const BufferScope buffers(bench_.task.module());
    measure(shape, extend, record);
  } catch (const std::exception& error) {
    const Failure failure = classify_failure(error);
    if (failure == Failure::kOther) throw;
    const int64_t samples = record.samples;
    record = ProbeRecord{};
    record.micro_batch = shape.micro_batch;
    record.samples = samples;
    record.outcome = outcome_of(failure);
    if (failure != Failure::kOutOfMemory) library_error_ = first_line(error);
  }
  refusal_ = memory.last_refusal();
  record.seconds = watch.seconds();
  return record;
}

void Probe::measure(const TrialShape& shape, const Extend& extend, ProbeRecord& record) {
  bench_.task.module().train();
  if (!run_worst(shape, extend, record)) return;
  if (has_costs(bench_.train)) run_mixed(shape, record);
  record.confirmed = record.outcome != ProbeOutcome::kRetried;
}

// Of stream_of_worst.
Probe::Pieces Probe::worst_pieces(const TrialShape& shape) {
  if (worst_.samples() != shape.window_samples) {
    worst_ = has_costs(bench_.train) ? costliest_window(bench_.train, shape.window_samples)
                                     : consecutive(0, shape.window_samples);
  }
  return trial_pieces(worst_, shape.micro_batch);
}

// False when it ended after one update, or ran only after the caches had been emptied.
bool Probe::run_worst(const TrialShape& shape, const Extend& extend, ProbeRecord& record) {
  const Pieces pieces = worst_pieces(shape);
  Loader loader(bench_.train, stream_of_worst(bench_), repeated(pieces), loading());
  update(loader, pieces, 0, record);
  take_peak(record);
  if (record.outcome == ProbeOutcome::kRetried || !extend(record)) return false;
  update(loader, pieces, 1, record);
  take_peak(record);
  bench_.device.memory().reset_peak();
  update(loader, pieces, 2, record);
  record.steady_bytes = bench_.device.memory().peak().total_bytes();
  if (shape.evaluation_micro_batch > 0) evaluate(shape);
  take_peak(record);
  return record.outcome != ProbeOutcome::kRetried;
}

// What the stream's first window needs, and then whether the worst one still fits between the blocks that
// other shapes left.
void Probe::run_mixed(const TrialShape& shape, ProbeRecord& record) {
  MemoryMeter& memory = bench_.device.memory();
  memory.empty_cache();
  memory.reset_peak();
  {
    const Pieces typical =
        trial_pieces(window_of(bench_.train, bench_.stream, 0, shape.window_samples), shape.micro_batch);
    Loader loader(bench_.train, bench_.stream, repeated(typical), loading());
    update(loader, typical, 3, record);
    record.typical_bytes = memory.peak().total_bytes();
  }
  const Pieces worst = worst_pieces(shape);
  Loader loader(bench_.train, stream_of_worst(bench_), repeated(worst), loading());
  update(loader, worst, 4, record);
  take_peak(record);
}

// With all the threads that the run may come to.
Loader::Options Probe::loading() const {
  Loader::Options options = bench_.loader;
  if (options.workers > 0) options.workers = std::max(options.workers, bench_.most_workers);
  return options;
}

void Probe::update(Loader& loader, const Pieces& pieces, int64_t window, ProbeRecord& record) {
  const Stopwatch watch;
  int64_t offset = 0;
  for (const Piece& piece : pieces) {
    stop_if_interrupted("plan", "a signal stopped the search; nothing was trained yet");
    const std::optional<Batch> batch = loader.next();
    check_invariant(batch && batch->samples == piece.samples(), "a trial gets the pieces it asked for");
    bench_.device.memory().sample_outside_bytes();  // while decoders have what they need
    loader.wait_until_full();  // in the run, batches prepared ahead stand beside the peak
    bench_.step.accumulate(bench_.device.upload(*batch), window, offset);
    bench_.device.memory().sample_outside_bytes();
    if (window == 0 && offset == 0) record.weight = bench_.step.window_weight();
    offset += piece.samples();
    record.samples += piece.samples();
  }
  PendingUpdate pending = bench_.step.finish(0, UpdateStep::Apply::kForceSkip);
  check_invariant(pending.valid(), "a trial's update ran");
  pending.read();
  bench_.device.synchronize();
  record.samples_per_second = static_cast<double>(offset) / watch.seconds();
  bench_.device.memory().sample_outside_bytes();
}

void Probe::evaluate(const TrialShape& shape) {
  const Dataset& data = *bench_.validation;
  torch::nn::Module& module = bench_.task.module();
  const int64_t samples = std::min(shape.evaluation_micro_batch, data.size());
  Loader loader(data, Stream(0, data.size(), false), one_pass(data, samples), loading());
  const std::optional<Batch> batch = loader.next();
  loader.wait_until_full();
  module.eval();
  evaluate_batch(bench_.task, bench_.device.upload(*batch), bench_.step.options().precision);
  module.train();
  bench_.device.synchronize();
  bench_.device.memory().sample_outside_bytes();
}

void Probe::take_peak(ProbeRecord& record) const {
  const MemoryPeak peak = bench_.device.memory().peak();
  const int64_t budget = bench_.device.budget_bytes();
  record.peak_bytes = std::max(record.peak_bytes, peak.total_bytes());
  record.allocated_bytes = std::max(record.allocated_bytes, peak.allocated_bytes);
  record.fill = static_cast<double>(record.peak_bytes) / static_cast<double>(budget);
  if (record.fill > target_high_) record.outcome = ProbeOutcome::kAboveBand;
  if (peak.retries > 0) record.outcome = ProbeOutcome::kRetried;
}

}  // namespace autotrain
