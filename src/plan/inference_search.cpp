#include "plan/inference_search.h"

#include "autotrain/error.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/units.h"
#include "plan/memory_statement.h"
#include "plan/plan_enums.h"
#include "plan/probe.h"

namespace autotrain {
namespace {

// A search by latency halves its bracket, which takes about twice the probes.
constexpr int64_t kMoreProbesForLatency = 2;

// What a clock tells of two sizes that are nearer to each other is more noise than news.
constexpr double kLatencyResolution = 0.05;

SearchLimits limits_of(const InferenceRequest& request) {
  const ExecutionRecipe& e = request.execution;
  SearchLimits limits{.target_low = e.memory.target_low,
                      .target_high = e.memory.target_high,
                      .cap = request.samples,
                      .cap_reason = SearchReason::kDataset,
                      .multiple_of = request.multiple_of,
                      .throughput_share = e.search.throughput_share,
                      .floor_bytes = request.floor_bytes,
                      .max_probes = e.search.max_probes,
                      .max_seconds = e.search.max_seconds,
                      .pivot = e.search.pivot};
  if (request.most && *request.most < limits.cap)
    limits.cap = *request.most, limits.cap_reason = SearchReason::kCap;
  if (!request.latency_seconds) return limits;
  limits.pivot = Pivot::kMidpoint;  // measured peaks say nothing about time
  limits.max_probes *= kMoreProbesForLatency;
  limits.resolution = kLatencyResolution;
  return limits;
}

std::string pass_in_words(const ProbeRecord& trial) {
  std::string line = cat("batch ", trial.micro_batch);
  if (trial.peak_bytes > 0) {
    line += cat(" · peak ", format_bytes(trial.peak_bytes), " · fill ", format_percent(trial.fill), " · ",
                brief(1e3 * forward_seconds(trial), 3), " ms");
  }
  return cat(line, " · ", in_words(trial.outcome), " · ", format_seconds(trial.seconds));
}

class InferenceSearch {
 public:
  InferenceSearch(Device& device, const InferenceRequest& request, const InferenceTrial& trial,
                  const TrialListener& listener)
      : device_(device),
        request_(request),
        trial_(trial),
        strategy_(find_strategy(request.execution.search.strategy)),
        search_(device, {.limits = limits_of(request),
                         .strategy = strategy_,
                         .trial = [this](int64_t size, const ExtendTrial&) { return run_trial(size); },
                         .name = [](int64_t size) { return cat("a batch of ", size); },
                         .in_words = pass_in_words,
                         .judge_also = [&request](ProbeRecord& record) { judge_latency(request, record); },
                         .listener = listener,
                         .known = request.known}) {}

  SearchResult run() {
    const Stopwatch watch;
    const SizeSearch::Found found = request_.typed ? take_typed(*request_.typed) : find();
    SearchResult result{.strategy = request_.typed ? "fixed" : strategy_.spec.name,
                        .micro_batch = found.size,
                        .fill = found.record.fill,
                        .peak_bytes = found.record.peak_bytes,
                        .reason = found.reason,
                        .confirmed = found.record.confirmed,
                        .probes = search_.trials(),
                        .seconds = watch.seconds()};
    for (const ProbeRecord& trial : result.probes) result.samples += trial.samples;
    return result;
  }

 private:
  static void judge_latency(const InferenceRequest& request, ProbeRecord& record) {
    if (record.fits() && request.latency_seconds && forward_seconds(record) > *request.latency_seconds)
      record.outcome = ProbeOutcome::kTooSlow;
  }

  SizeSearch::Found find() {
    const auto found = search_.find();
    return found ? *found : fail_smallest();
  }

  SizeSearch::Found take_typed(int64_t size) {
    const auto found = search_.take_typed(size);
    return found ? *found : fail_typed(size);
  }

  ProbeRecord run_trial(int64_t size) {
    begin_trial(device_.memory());
    const Stopwatch watch;
    ProbeRecord record;
    record.micro_batch = size;
    try {
      record.samples_per_second = static_cast<double>(size) / trial_(size);
      take_peak(record);
    } catch (const std::exception& error) {
      take_failure(record, error);
    }
    record.seconds = watch.seconds();
    return record;
  }

  void take_peak(ProbeRecord& record) const {
    device_.memory().sample_outside_bytes();
    const MemoryPeak peak = device_.memory().peak();
    raise_to(record, peak);
    record.samples = record.micro_batch;
    record.confirmed = peak.retries == 0;
    if (peak.retries > 0) record.outcome = ProbeOutcome::kRetried;
  }

  void take_failure(ProbeRecord& record, const std::exception& error) {
    const Failure failure = classify_failure(error);
    if (failure == Failure::kOther) throw;
    record.outcome = outcome_of(failure);
    refusal_ = device_.memory().last_refusal();
    said_ = first_line(error);
    if (failure == Failure::kOutOfMemory && refusal_) record.refused_bytes = refusal_->total_bytes();
  }

  [[noreturn]] SizeSearch::Found fail_smallest() const {
    const ProbeRecord& one = *find_size(search_.history(), 1);
    if (one.outcome == ProbeOutcome::kTooSlow) {
      throw Error(ExitCode::kDoesNotFit, "--latency-ms",
                  cat("a forward pass of one sample takes ", brief(1e3 * forward_seconds(one), 3),
                      " ms, not ", brief(1e3 * *request_.latency_seconds), " ms or less"),
                  "allow more, use a smaller model, or a faster precision");
    }
    throw Error(ExitCode::kDoesNotFit, "execution.memory.budget",
                cat("not even one sample fits the ", format_bytes(device_.budget_bytes()), " of the budget",
                    why(one)),
                "raise it: --set execution.memory.budget=…");
  }

  [[noreturn]] SizeSearch::Found fail_typed(int64_t size) const {
    throw Error(ExitCode::kDoesNotFit, "--batch",
                cat("a batch of ", size, " samples does not fit the ", format_bytes(device_.budget_bytes()),
                    " of the budget", why(*find_size(search_.history(), size))),
                "leave --batch out: the largest that fits is searched; or raise execution.memory.budget");
  }

  std::string why(const ProbeRecord& record) const {
    if (record.fill > 1) return ": it takes " + format_bytes(record.peak_bytes);
    if (record.outcome == ProbeOutcome::kRetried) return cat(": ", in_words(record.outcome));
    if (refusal_) return describe(*refusal_);
    return said_.empty() ? "" : ": " + said_;
  }

  Device& device_;
  const InferenceRequest& request_;
  const InferenceTrial& trial_;
  const StrategyRow& strategy_;
  SizeSearch search_;
  std::optional<Refusal> refusal_;  // of the last trial that was refused
  std::string said_;                // by what failed last
};

}  // namespace

double forward_seconds(const ProbeRecord& trial) {
  return static_cast<double>(trial.micro_batch) / trial.samples_per_second;
}

SearchResult find_inference_batch(Device& device, const InferenceRequest& request,
                                  const InferenceTrial& trial, const TrialListener& listener) {
  return InferenceSearch(device, request, trial, listener).run();
}

}  // namespace autotrain
