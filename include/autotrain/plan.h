#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "autotrain/recipe.h"

namespace autotrain {

/// What became of a trial.
enum class ProbeOutcome {
  kFits,        ///< ran, peak at most the band's upper edge
  kAboveBand,   ///< ran inside the budget, peak above the band
  kRefused,     ///< the allocator refused memory
  kRetried,     ///< ran only after the allocator had emptied its caches: too tight
  kLibrary,     ///< a library failed in the way it does when memory is short
  kIndexLimit,  ///< beyond what a kernel can index or launch
  kTooSlow,     ///< of inference: ran in the band, longer than the latency that was asked for
  kCrashed,  ///< ended its process: a library could not bear that memory was short, or the system killed it
};

/// One measured trial of a micro-batch size.
struct ProbeRecord {
  int64_t micro_batch = 0;
  ProbeOutcome outcome = ProbeOutcome::kFits;
  int64_t peak_bytes = 0;       ///< reserved plus outside, above the start's baseline; 0 unless it ran
  int64_t allocated_bytes = 0;  ///< peak that tensors held
  int64_t outside_bytes = 0;    ///< peak outside the allocator: kernels and scratch memory of libraries
  int64_t refused_bytes = 0;    ///< what it would have come to with the block that was refused; 0: unknown
  int64_t typical_bytes = 0;    ///< peak of the stream's first window; 0: not run, or samples are alike
  int64_t growth_bytes = 0;     ///< of the peak: what kernels for shapes to come are expected to take
  double fill = 0;              ///< peak_bytes ÷ budget
  double seconds = 0;           ///< of the whole trial

  /// Of its last update; 0 unless it ran. Where data in main memory cost nothing of the budget, a trial does
  /// not wait for them, nor does this figure.
  double samples_per_second = 0;
  double pass_samples_per_second = 0;  ///< likewise, of forward, backward and update alone; 0: not measured
  double load_seconds_per_sample = 0;  ///< of a loader's thread; 0: not measured
  int64_t samples = 0;                 ///< forward and backward passes made for the trial, in samples
  double weight = 0;                   ///< Σ loss weights of its first micro-batch
  bool confirmed = false;              ///< several updates and an evaluation ran inside the budget
  bool recompute = false;              ///< with `execution.recompute` in force
  bool fits() const { return outcome == ProbeOutcome::kFits; }
};

/// Why the search ended where it did.
enum class SearchReason {
  kInBand,          ///< the peak is in the band
  kEffectiveBatch,  ///< all of the effective batch fits
  kDataset,         ///< all of the data set fits
  kCap,             ///< the user's cap, or the cap of `effective: auto`
  kIndexLimit,      ///< kernels cannot take more
  kGranularity,     ///< one step more leaves the band
  kAboveBand,       ///< above the band, as the smallest size is too, but inside the budget
  kSearchLimit,     ///< probes or seconds are spent
  kKnee,            ///< more gains no throughput
  kLatency,         ///< of inference: one step more takes longer than was asked for
  kFixed,           ///< the user typed the size
  kDoesNotFit,      ///< not even the smallest fits
};

/// Where a number of the plan comes from.
enum class Origin { kAsked, kFound, kDefault };

struct LearningRatePlan {
  double base = 0;              ///< as in the recipe, at `reference_batch`
  int64_t reference_batch = 0;  ///< samples
  std::string rule = {};
  double scaled = 0;  ///< what is used: base × rule(effective ÷ reference)
};

struct SearchResult {
  std::string strategy = {};
  int64_t micro_batch = 0;  ///< the capacity: what fits
  double fill = 0;
  int64_t peak_bytes = 0;
  SearchReason reason = SearchReason::kFixed;

  /// The smallest tried size whose trial was about as fast as the fastest one; 0: no trial fitted.
  int64_t fast_micro_batch = 0;
  bool confirmed = false;
  bool from_cache = false;
  std::vector<ProbeRecord> probes = {};
  double seconds = 0;
  int64_t samples = 0;  ///< forward and backward passes spent, in samples
};

/// A stretch of a run whose updates have equally many samples.
struct PlanStage {
  int64_t samples = 0;          ///< of applied updates before it
  int64_t effective_batch = 0;  ///< samples per update over all ranks
  int64_t window = 0;           ///< micro-batches of one update on one rank
  double lr = 0;                ///< after the rule, before schedules
};

/// The resolved decision how a run executes, with the evidence. A value that does not change after
/// planning.
struct BatchPlan {
  std::string device = {};  ///< "cpu", "cuda:0"
  std::string device_name = {};
  Precision precision = Precision::kFp32;
  MemoryFormat memory_format = MemoryFormat::kContiguous;
  int64_t world_size = 1;  ///< ranks
  int64_t lanes = 1;       ///< of an update, over all ranks: parts that are accumulated apart
  int64_t budget_bytes = 0;
  std::string budget_source = {};
  int64_t others_bytes = 0;  ///< of a GPU: what others held of its memory when the plan was made; else 0
  double target_low = 0, target_high = 0;

  int64_t effective_batch = 0;  ///< samples per update over all ranks; the most, where it changes
  int64_t micro_batch = 0;      ///< samples in one forward and backward on one rank, as executed
  int64_t window = 0;           ///< micro-batches of one update on one rank

  /// Where the effective batch changes: all stages, in their order; of one that adapts the first.
  std::vector<PlanStage> stages = {};
  int64_t least_effective_batch = 0;  ///< of one that adapts; 0: it does not
  Cut cut = Cut::kEven;
  double fill = 0;                ///< of the executed size, at the worst shape
  double typical_fill = 0;        ///< the same at the shapes of the stream's first window
  int64_t peak_bytes = 0;         ///< of the executed size
  bool confirmed = false;         ///< the executed size ran several updates and an evaluation in budget
  double samples_per_second = 0;  ///< of the executed size's trial
  int64_t evaluation_micro_batch = 0;
  double loss_factor = 1;  ///< power of two that loss sums are multiplied with before backward

  bool cuda_graphs = false;          ///< the run replays recorded kernels
  std::string cuda_graphs_why = {};  ///< how much faster that was, or why it does not; "" where nobody asked

  bool recompute = false;          ///< the backward pass computes again what the forward pass does not keep
  std::string recompute_why = {};  ///< what trials of both came to; "" where nobody asked

  std::string split_check = {};  ///< what comparing a batch with its halves showed; "" for a window of 1

  LearningRatePlan lr;
  SearchResult search;
  std::map<std::string, Origin> origin = {};  ///< of device, precision, effective_batch, micro_batch, …
};

/// Words of enums, as plan.json has them.
std::string to_string(ProbeOutcome outcome);
std::string to_string(SearchReason reason);
std::string to_string(Origin origin);
std::string to_string(Precision precision);
std::string to_string(MemoryFormat format);
std::string to_string(Cut cut);

/// One line: "micro 96 · window 3 · ranks 2 · effective 576 · peak 10.8 of 12.0 GiB", and where samples
/// differ in cost " · fill 88.0 % of the budget at the worst shape, typical 51.0 %". Where the effective
/// batch changes: "effective 64 to 256".
std::string summary_line(const BatchPlan& plan);

}  // namespace autotrain
