#include "plan/inference_search.h"

#include <algorithm>

#include "autotrain/error.h"
#include "autotrain/log.h"
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

class InferenceSearch {
 public:
  InferenceSearch(Device& device, const InferenceRequest& request, const InferenceTrial& trial,
                  const TrialListener& listener)
      : device_(device),
        announced_source_(device.budget_source()),
        request_(request),
        trial_(trial),
        listener_(listener),
        band_{request.execution.memory.target_low, request.execution.memory.target_high},
        history_(request.known) {
    for (ProbeRecord& record : history_) judge_trial(record);
  }

  SearchResult run() {
    const Stopwatch watch;
    SearchResult result = request_.typed ? take_typed(*request_.typed) : search();
    const ProbeRecord& found = *find_size(history_, result.micro_batch);
    result.fill = found.fill;
    result.peak_bytes = found.peak_bytes;
    result.confirmed = found.confirmed;
    result.probes = history_;
    result.seconds = watch.seconds();
    for (const ProbeRecord& record : history_) result.samples += record.samples;
    return result;
  }

 private:
  SearchLimits limits() const {
    const ExecutionRecipe& e = request_.execution;
    SearchLimits limits{.budget_bytes = device_.budget_bytes(),
                        .target_low = band_.low,
                        .target_high = band_.high,
                        .cap = request_.samples,
                        .cap_reason = SearchReason::kDataset,
                        .multiple_of = request_.multiple_of,
                        .throughput_share = e.search.throughput_share,
                        .floor_bytes = request_.floor_bytes,
                        .max_probes = e.search.max_probes,
                        .max_seconds = e.search.max_seconds,
                        .pivot = e.search.pivot};
    if (request_.most && *request_.most < limits.cap)
      limits.cap = *request_.most, limits.cap_reason = SearchReason::kCap;
    if (!request_.latency_seconds) return limits;
    limits.pivot = Pivot::kMidpoint;  // measured peaks say nothing about time
    limits.max_probes *= kMoreProbesForLatency;
    limits.resolution = kLatencyResolution;
    return limits;
  }

  SearchResult search() {
    const StrategyRow& strategy = find_strategy(request_.execution.search.strategy);
    lower_budget();
    for (;;) {
      const SearchStep step = strategy.next(history_, limits());
      if (step.done && step.size > 0)
        return {.strategy = strategy.spec.name, .micro_batch = step.size, .reason = reason_of(step)};
      if (step.done) {
        raise_the_edge();
        continue;
      }
      try_size(step.size);
    }
  }

  // @throws Error(kDoesNotFit) when not even one sample is inside the budget.
  void raise_the_edge() {
    const auto band = raised_band(history_, limits(), request_.execution.memory.target_high);
    if (!band) fail_smallest();
    band_ = *band;
    for (ProbeRecord& record : history_) judge_trial(record);
  }

  SearchReason reason_of(const SearchStep& step) const {
    const double fill = find_size(history_, step.size)->fill;
    if (fill <= request_.execution.memory.target_high) return step.reason;
    log::warn(
        "plan",
        cat("a batch of ", step.size, " fills ", format_percent(fill),
            " of the budget, above the band, as even one sample does; it is inside the budget, so it runs"));
    return SearchReason::kAboveBand;
  }

  SearchResult take_typed(int64_t size) {
    const ProbeRecord* known = find_size(history_, size);
    if (known == nullptr) {
      try_size(size);
      known = find_size(history_, size);
    }
    if (known->peak_bytes == 0 || known->fill > 1) fail_typed(size, *known);
    if (known->fill > request_.execution.memory.target_high) {
      log::warn("plan", cat("a batch of ", size, " fills ", format_percent(known->fill),
                            " of the budget, above the band; it was asked for, so it runs"));
    }
    return {.strategy = "fixed", .micro_batch = size, .reason = SearchReason::kFixed};
  }

  void try_size(int64_t size) {
    listener_.on_start(size);
    ProbeRecord record = run_trial(size);
    judge_trial(record);
    history_.push_back(record);
    log::info("plan", line_of(record));
    listener_.on_end(record);
    lower_budget();
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

  void judge_trial(ProbeRecord& record) const {
    judge(record, device_.budget_bytes(), band_.high);
    if (record.fits() && request_.latency_seconds && forward_seconds(record) > *request_.latency_seconds)
      record.outcome = ProbeOutcome::kTooSlow;
  }

  void lower_budget() {
    const int64_t granted = granted_bytes(history_, limits());
    if (!lower_budget_to(granted, cat(announced_source_, ", of which less was granted"), device_)) return;
    for (ProbeRecord& record : history_) judge_trial(record);
  }

  std::string line_of(const ProbeRecord& r) const {
    std::string line = cat("probe ", history_.size(), ": batch ", r.micro_batch);
    if (r.peak_bytes > 0) {
      line += cat(" · peak ", format_bytes(r.peak_bytes), " · fill ", format_percent(r.fill), " · ",
                  brief(1e3 * forward_seconds(r), 3), " ms");
    }
    return cat(line, " · ", in_words(r.outcome), " · ", format_seconds(r.seconds));
  }

  [[noreturn]] void fail_smallest() const {
    const ProbeRecord& one = *find_size(history_, 1);
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

  [[noreturn]] void fail_typed(int64_t size, const ProbeRecord& record) const {
    throw Error(ExitCode::kDoesNotFit, "--batch",
                cat("a batch of ", size, " samples does not fit the ", format_bytes(device_.budget_bytes()),
                    " of the budget", why(record)),
                "leave --batch out: the largest that fits is searched; or raise execution.memory.budget");
  }

  std::string why(const ProbeRecord& record) const {
    if (record.peak_bytes > 0) return ": it takes " + format_bytes(record.peak_bytes);
    if (refusal_) return describe(*refusal_);
    return said_.empty() ? "" : ": " + said_;
  }

  Device& device_;
  const std::string announced_source_;  // of the budget, before trials lowered it
  const InferenceRequest& request_;
  const InferenceTrial& trial_;
  const TrialListener& listener_;
  Band band_;                         // raised where even one sample is above the recipe's
  std::vector<ProbeRecord> history_;  // one record a size
  std::optional<Refusal> refusal_;    // of the last trial that was refused
  std::string said_;                  // by what failed last
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
