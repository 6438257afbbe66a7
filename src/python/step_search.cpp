#include "python/step_search.h"

#include <algorithm>

#include "autotrain/error.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/units.h"
#include "plan/cut.h"
#include "plan/memory_statement.h"
#include "plan/plan_enums.h"
#include "plan/plan_words.h"
#include "plan/probe.h"
#include "plan/size_search.h"

namespace autotrain {
namespace {

constexpr int64_t kMostSamples = 1 << 20;  // of an update that nobody bounded

// Ends the search; nobody else sees it.
struct Stopped {};

ProbeOutcome outcome_of_step(StepSaid said) {
  switch (said) {
    case StepSaid::kOutOfMemory: return ProbeOutcome::kRefused;
    case StepSaid::kLibraryMemory: return ProbeOutcome::kLibrary;
    case StepSaid::kIndexLimit: return ProbeOutcome::kIndexLimit;
    default: throw Stopped();
  }
}

class StepSearch {
 public:
  StepSearch(CarryingDevice& device, const StepRequest& request, const RunStep& run)
      : device_(device),
        request_(request),
        run_(run),
        search_(device,
                {.limits = limits(),
                 .strategy = find_strategy("binary"),
                 .trial = [this](int64_t size, const ExtendTrial& extend) { return run_trial(size, extend); },
                 .name = [](int64_t size) { return cat("micro-batch ", size); },
                 .in_words = trial_in_words}) {}

  StepPlan plan();

 private:
  SearchLimits limits() const;
  std::vector<int64_t> pieces_of(int64_t micro_batch) const;
  ProbeRecord run_trial(int64_t size, const ExtendTrial& extend);
  void measure(int64_t size, const ExtendTrial& extend, ProbeRecord& record);
  bool ran(StepPart part, const std::vector<int64_t>& pieces, ProbeRecord& record);
  bool update(StepPart part, const std::vector<int64_t>& pieces, ProbeRecord& record);
  SizeSearch::Found in_multiples(const SizeSearch::Found& capacity);
  ProbeRecord executed(const SizeSearch::Found& capacity, BatchPlan& plan, std::string& said);
  ProbeRecord divisor(const SizeSearch::Found& capacity);
  void check_rest(int64_t micro_batch) const;
  std::string enough_budget(int64_t size);
  [[noreturn]] void fail_smallest();
  void describe(const SizeSearch::Found& capacity, const ProbeRecord& executed, BatchPlan& plan) const;

  CarryingDevice& device_;
  const StepRequest& request_;
  const RunStep& run_;
  SizeSearch search_;
  std::optional<Refusal> refusal_;  // of the last trial that was refused
};

SearchLimits StepSearch::limits() const {
  const int64_t share = request_.effective.value_or(kMostSamples);
  SearchLimits limits{.target_low = request_.target_low,
                      .target_high = request_.target_high,
                      .cap = share,
                      .cap_reason = request_.effective ? SearchReason::kEffectiveBatch : SearchReason::kCap,
                      .multiple_of = request_.multiple_of,
                      .floor_bytes = request_.floor_bytes,
                      .max_probes = request_.max_probes,
                      .max_seconds = request_.max_seconds};
  if (request_.most && *request_.most < limits.cap)
    limits.cap = *request_.most, limits.cap_reason = SearchReason::kCap;
  if (const int64_t beyond = limits.cap % request_.multiple_of; beyond > 0)
    limits.cap -= beyond, limits.cap_reason = SearchReason::kCap;
  limits.minimum = std::min(round_up(request_.minimum, request_.multiple_of), limits.cap);
  return limits;
}

// Of an update the first two full micro-batches, for a third one is like the second, and the rest. A rest
// that is too small for batch normalisation is never executed, so never tried.
std::vector<int64_t> StepSearch::pieces_of(int64_t micro_batch) const {
  const int64_t samples = std::max(request_.effective.value_or(micro_batch), micro_batch);
  std::vector<int64_t> sizes(samples / micro_batch > 1 ? 2 : 1, micro_batch);
  const int64_t rest = samples % micro_batch;
  if (rest > 0 && rest >= request_.minimum) sizes.push_back(rest);
  return sizes;
}

ProbeRecord StepSearch::run_trial(int64_t size, const ExtendTrial& extend) {
  const Stopwatch watch;
  begin_trial(device_.memory());
  ProbeRecord record;
  record.micro_batch = size;
  measure(size, extend, record);
  if (const auto refusal = device_.memory().last_refusal()) {
    refusal_ = refusal;
    if (record.outcome == ProbeOutcome::kRefused) record.refused_bytes = refusal->total_bytes();
  }
  if (run_(StepPart::kEnd, {}) != StepSaid::kRan) throw Stopped();
  record.seconds = watch.seconds();
  return record;
}

// As a trial of the program's own runs: the second update has what the first one left between its blocks.
void StepSearch::measure(int64_t size, const ExtendTrial& extend, ProbeRecord& record) {
  const std::vector<int64_t> pieces = pieces_of(size);
  if (!update(StepPart::kUpdate, pieces, record)) return;
  if (record.outcome == ProbeOutcome::kRetried || !extend(record)) return;
  if (!update(StepPart::kUpdate, pieces, record)) return;
  if (request_.evaluates && !ran(StepPart::kEvaluation, {size}, record)) return;
  if (request_.costs_differ) {
    if (!update(StepPart::kTypical, pieces, record)) return;
    if (!update(StepPart::kUpdate, pieces, record)) return;
  }
  record.confirmed = record.outcome != ProbeOutcome::kRetried;
}

bool StepSearch::update(StepPart part, const std::vector<int64_t>& pieces, ProbeRecord& record) {
  const Stopwatch watch;
  if (!ran(part, pieces, record)) return false;
  int64_t samples = 0;
  for (const int64_t piece : pieces) samples += piece;
  record.samples += samples;
  record.samples_per_second = static_cast<double>(samples) / watch.seconds();
  return true;
}

// Of a size that did not run, all that is known is how it ended. A step may catch the error itself and leave
// its samples out. On CUDA libraries do so too, and fall back: there a refusal alone says nothing.
bool StepSearch::ran(StepPart part, const std::vector<int64_t>& pieces, ProbeRecord& record) {
  StepSaid said = run_(part, pieces);
  const bool caught =
      said == StepSaid::kRan && device_.torch_device().is_cpu() && device_.memory().last_refusal();
  if (caught) said = StepSaid::kOutOfMemory;
  if (said != StepSaid::kRan) {
    record = {.micro_batch = record.micro_batch, .outcome = outcome_of_step(said), .samples = record.samples};
    return false;
  }
  device_.synchronize();
  device_.memory().sample_outside_bytes();
  const MemoryPeak peak = device_.memory().peak();
  raise_to(record, peak);
  search_.judge(record);
  if (peak.retries > 0) record.outcome = ProbeOutcome::kRetried;
  return true;
}

// Where no multiple lies between a size that fits and one that does not, the search tries others.
SizeSearch::Found StepSearch::in_multiples(const SizeSearch::Found& capacity) {
  int64_t size = capacity.size - capacity.size % request_.multiple_of;
  if (size == capacity.size) return capacity;
  for (; size >= search_.limits().minimum; size -= request_.multiple_of)
    if (const ProbeRecord record = search_.confirm(size); record.fits())
      return {size, record, SearchReason::kGranularity};
  fail_smallest();
}

// The largest size that fits and leaves no rest.
ProbeRecord StepSearch::divisor(const SizeSearch::Found& capacity) {
  const int64_t step = request_.multiple_of;
  for (int64_t size = capacity.size; size >= search_.limits().minimum; size -= step) {
    if (*request_.effective % size != 0) continue;
    if (size == capacity.size) return capacity.record;
    if (const ProbeRecord record = search_.confirm(size); record.fits()) return record;
  }
  throw Error(
      ExitCode::kBadRecipe, "effective",
      cat("no micro-batch from ", search_.limits().minimum, " to ", capacity.size, ", the most that fit",
          step > 1 ? cat(", in steps of ", step) : "", ", divides ", *request_.effective),
      cat("give a multiple of ", capacity.size, ", or cut=\"even\" where the micro-batches may differ"));
}

// With batch normalisation no piece may be a single sample: 5 of them are not cut into micro-batches of 2.
void StepSearch::check_rest(int64_t micro_batch) const {
  const int64_t samples = request_.effective.value_or(micro_batch);
  if (samples / ceil_div(samples, micro_batch) >= request_.minimum) return;
  throw Error(ExitCode::kBadRecipe, "effective",
              cat(samples, " samples cannot be cut into micro-batches of ", micro_batch, " and none below ",
                  request_.minimum, ": batch normalisation has no statistics of one sample"),
              cat("give a multiple of ", micro_batch, ", or allow larger micro-batches"));
}

// The record of the size that is executed. An even cut may leave the band: where it does and the capacity is
// in it, full micro-batches and a rest fill the memory better.
ProbeRecord StepSearch::executed(const SizeSearch::Found& capacity, BatchPlan& plan, std::string& said) {
  if (!request_.effective) return capacity.record;
  if (request_.cut == StepCut::kDivide) {
    const ProbeRecord record = divisor(capacity);
    if (record.fill < request_.target_low && record.micro_batch < capacity.size) {
      said =
          cat("micro-batches of ", record.micro_batch, " fill ", format_percent(record.fill),
              " of the budget, where ", capacity.size, " fit: nothing between divides ", *request_.effective);
    }
    return record;
  }
  CutRequest cut{.share = *request_.effective,
                 .capacity = capacity.size,
                 .cut = request_.cut == StepCut::kFull ? Cut::kFull : Cut::kEven,
                 .minimum = request_.minimum};
  const auto confirmed = [&] {
    const int64_t size = round_up(executed_micro_batch(cut), request_.multiple_of);
    return size == capacity.size ? capacity.record : search_.confirm(size);
  };
  ProbeRecord record = confirmed();
  const bool below = record.fill < request_.target_low && capacity.record.fill >= request_.target_low;
  if (cut.cut == Cut::kEven && (!record.fits() || (below && request_.cut == StepCut::kAuto))) {
    if (record.fits()) {
      said = cat("cut evenly, micro-batches of ", record.micro_batch, " would fill only ",
                 format_percent(record.fill), " of the budget: they are full, and the last one is a rest");
    }
    cut.cut = Cut::kFull;
    record = confirmed();
  } else if (below) {
    said = cat("micro-batches of ", record.micro_batch, " fill ", format_percent(record.fill),
               " of the budget, where ", capacity.size, " fit");
  }
  plan.cut = cut.cut;
  return record.fits() ? record : capacity.record;
}

void StepSearch::describe(const SizeSearch::Found& capacity, const ProbeRecord& executed,
                          BatchPlan& plan) const {
  plan.device = device_.torch_device().str();
  plan.device_name = device_.name();
  plan.budget_bytes = device_.budget_bytes();
  plan.budget_source = device_.budget_source();
  plan.target_low = request_.target_low;
  plan.target_high = request_.target_high;
  plan.micro_batch = executed.micro_batch;
  plan.effective_batch = request_.effective.value_or(executed.micro_batch);
  plan.window = ceil_div(plan.effective_batch, plan.micro_batch);
  plan.fill = executed.fill;
  plan.typical_fill = executed.fill;
  plan.peak_bytes = executed.peak_bytes;
  plan.confirmed = executed.confirmed;
  plan.samples_per_second = executed.samples_per_second;
  plan.evaluation_micro_batch = request_.evaluates ? plan.micro_batch : 0;
  plan.search = {.strategy = "binary",
                 .micro_batch = capacity.size,
                 .fill = capacity.record.fill,
                 .peak_bytes = capacity.record.peak_bytes,
                 .reason = capacity.reason,
                 .confirmed = capacity.record.confirmed,
                 .probes = search_.trials()};
  for (const ProbeRecord& probe : plan.search.probes) plan.search.samples += probe.samples;
}

StepPlan StepSearch::plan() {
  const Stopwatch watch;
  StepPlan found;
  const std::optional<SizeSearch::Found> fits = search_.find();
  if (!fits) fail_smallest();
  SizeSearch::Found capacity = in_multiples(*fits);
  const ProbeRecord record = executed(capacity, found.plan, found.said);
  check_rest(record.micro_batch);
  search_.judge(capacity.record);
  describe(capacity, record, found.plan);
  found.plan.search.seconds = watch.seconds();
  return found;
}

// What the size takes, by a trial with the limit lifted to what the device has; "" when that does not do.
std::string StepSearch::enough_budget(int64_t size) {
  const int64_t budget = device_.budget_bytes();
  const int64_t most = device_.obtainable_bytes();
  if (most <= budget) return "";
  device_.memory().set_limit(most);
  const ProbeRecord record = run_trial(size, [](const ProbeRecord&) { return true; });
  device_.memory().set_limit(budget);
  if (record.peak_bytes == 0) return "";
  const auto enough = static_cast<int64_t>(static_cast<double>(record.peak_bytes) / request_.target_high);
  return cat("raise the budget: ", enough / kMiB + 1, "MiB would be enough (measured, ",
             format_bytes(record.peak_bytes), " at peak)");
}

void StepSearch::fail_smallest() {
  const ProbeRecord smallest = *std::ranges::min_element(search_.history(), {}, &ProbeRecord::micro_batch);
  const std::optional<Refusal> refusal = refusal_;
  const std::string why =
      smallest.fill > 1 ? cat("it came to ", format_percent(smallest.fill)) : in_words(smallest.outcome);
  const std::string enough = enough_budget(smallest.micro_batch);
  throw Error(
      ExitCode::kDoesNotFit, "budget",
      cat("not even ", smallest.micro_batch, smallest.micro_batch == 1 ? " sample fits" : " samples fit",
          " the budget of ", format_bytes(device_.budget_bytes()), " (", why,
          "), of which weights, buffers and the optimizer's state take ",
          format_bytes(device_.carried_bytes()), refusal ? autotrain::describe(*refusal) : std::string()),
      enough.empty() ? "raise the budget, or use a smaller model or smaller samples" : enough);
}

}  // namespace

std::optional<StepPlan> find_step_batch(CarryingDevice& device, const StepRequest& request,
                                        const RunStep& run) {
  try {
    return StepSearch(device, request, run).plan();
  } catch (const Stopped&) {
    return std::nullopt;
  }
}

}  // namespace autotrain
