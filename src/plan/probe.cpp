#include "plan/probe.h"

#include <algorithm>

#include "autotrain/error.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "device/failure.h"
#include "plan/scopes.h"
#include "step/generators.h"

namespace autotrain {
namespace {

// The pieces of the trial's windows, one after the other, from the start of the stream.
PieceSource repeated(std::vector<int64_t> pieces) {
  return [pieces = std::move(pieces), i = size_t{0}, position = int64_t{0}]() mutable {
    const Piece piece{position, pieces[i]};
    i = (i + 1) % pieces.size();
    position += piece.samples;
    return std::optional(piece);
  };
}

ProbeOutcome outcome_of(Failure failure) {
  switch (failure) {
    case Failure::kOutOfMemory: return ProbeOutcome::kRefused;
    case Failure::kLibraryMemory: return ProbeOutcome::kLibrary;
    case Failure::kIndexLimit: return ProbeOutcome::kIndexLimit;
    case Failure::kOther: break;
  }
  throw std::logic_error("an error that is not about memory is no outcome of a trial");
}

}  // namespace

std::vector<int64_t> trial_pieces(const TrialShape& shape) {
  const int64_t m = shape.micro_batch;
  const std::vector<Piece> cut = WindowCut{std::max(shape.window_samples, m), m}.cut(0);
  std::vector<int64_t> pieces = {m};
  if (cut.size() >= 2 && cut[1].samples == m) pieces.push_back(m);
  if (cut.back().samples != m) pieces.push_back(cut.back().samples);
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
  const std::vector<int64_t> pieces = trial_pieces(shape);
  Loader loader(bench_.train, bench_.stream, repeated(pieces), loading());
  bench_.task.module().train();
  update(loader, pieces, 0, record);
  take_peak(record);
  if (record.outcome == ProbeOutcome::kRetried || !extend(record)) return;
  update(loader, pieces, 1, record);
  take_peak(record);
  bench_.device.memory().reset_peak();
  update(loader, pieces, 2, record);
  record.steady_bytes = bench_.device.memory().peak().total_bytes();
  if (shape.evaluation_micro_batch > 0) evaluate(shape);
  take_peak(record);
  record.confirmed = record.outcome != ProbeOutcome::kRetried;
}

// With all the threads that the run may come to.
Loader::Options Probe::loading() const {
  Loader::Options options = bench_.loader;
  if (options.workers > 0) options.workers = std::max(options.workers, bench_.most_workers);
  return options;
}

void Probe::update(Loader& loader, const std::vector<int64_t>& pieces, int64_t window, ProbeRecord& record) {
  const Stopwatch watch;
  int64_t offset = 0;
  for (const int64_t samples : pieces) {
    stop_if_interrupted("plan", "a signal stopped the search; nothing was trained yet");
    const std::optional<Batch> batch = loader.next();
    check_invariant(batch && batch->samples == samples, "a trial gets the pieces it asked for");
    bench_.device.memory().sample_outside_bytes();  // while decoders have what they need
    loader.wait_until_full();  // in the run, batches prepared ahead stand beside the peak
    bench_.step.accumulate(bench_.device.upload(*batch), window, offset);
    bench_.device.memory().sample_outside_bytes();
    if (window == 0 && offset == 0) record.weight = bench_.step.window_weight();
    offset += samples;
    record.samples += samples;
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
  Loader loader(data, Stream(0, data.size(), false), one_pass(data.size(), samples), loading());
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
