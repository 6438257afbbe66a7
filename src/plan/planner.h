#pragma once

#include <functional>
#include <memory>

#include "autotrain/plan.h"
#include "plan/memory_statement.h"
#include "plan/plan_cache.h"
#include "plan/probe.h"
#include "plan/search.h"
#include "plan/size_search.h"
#include "plan/split_check.h"

namespace autotrain {

/// What a plan depends on beside the workbench.
struct PlanRequest {
  const Recipe& recipe;
  int64_t lanes = 1;   ///< of an update, over all ranks
  bool fresh = false;  ///< ignore plans that were kept

  /// Every key of the recipe that decides memory, with its value: kept plans are found by them.
  std::string memory_keys = {};

  /// Samples over all ranks of the shorter update that a run of this effective batch ends with; 0: none.
  std::function<int64_t(int64_t effective)> last_window = [](int64_t) { return 0; };

  /// Samples over all ranks of updates that other stages of the run make, all smaller than the recipe's.
  std::vector<int64_t> smaller_batches = {};

  std::vector<ProbeRecord> known = {};  ///< trials that were made before, of which none is made again

  /// Samples of an update in its largest lane; 0 while `effective: auto` leaves it open.
  int64_t share() const;

  /// Samples over all ranks of every update that is smaller than the recipe's, the last one of the run among
  /// them.
  std::vector<int64_t> smaller_windows(int64_t effective) const;

  /// Of updates of other stages: the samples of the lanes that get most, and of those that get least.
  std::vector<int64_t> shares_of_smaller_batches() const;
};

/// The recipe's learning rate, scaled by its rule to so many samples an update.
LearningRatePlan learning_rate_plan(const Recipe& recipe, int64_t effective_batch);

/// Decides the micro-batch, the window and the learning rate of a run, by measuring.
class Planner {
 public:
  Planner(const PlanRequest& request, Workbench& bench, TrialListener listener = {});

  /// The plan. Both the capacity and the executed size have been run from clean state, inside the
  /// budget, over several updates and an evaluation.
  /// @throws Error(kDoesNotFit) with a post-mortem when the smallest size, or a size that the user
  /// typed, does not fit; Error(kBadRecipe) when the effective batch is larger than the data set.
  BatchPlan plan();

 private:
  using Capacity = SizeSearch::Found;

  SearchLimits limits() const;
  TrialShape shape_for(int64_t micro_batch) const;
  ProbeRecord run_trial(int64_t size, const ExtendTrial& extend);
  void begin_search();

  Capacity take_typed(int64_t size);
  std::optional<SearchResult> kept_capacity() const;
  bool may_be_larger(const SearchResult& kept, const ProbeRecord& record);
  std::optional<Capacity> try_kept();
  Capacity find_capacity(BatchPlan& plan);
  ProbeRecord execute(const Capacity& capacity, int64_t& micro_batch);
  void describe_executed(BatchPlan& plan, const Capacity& capacity);
  void decide_recording(BatchPlan& plan);
  bool try_recorded(BatchPlan& plan, bool always);
  void keep_plan(const BatchPlan& plan) const;

  std::string half_that_fits(int64_t size);
  std::string budget_that_is_enough(int64_t size);
  [[noreturn]] void fail_smallest();
  [[noreturn]] void fail_typed(int64_t size);

  PlanRequest request_;
  Workbench& bench_;
  TrialListener listener_;
  const int64_t smallest_;  ///< micro-batch that the module may be trained on
  Probe probe_;
  std::optional<SizeSearch> search_;  ///< since begin_search
  std::optional<Refusal> refusal_;
  std::string library_error_;  ///< of the last size that did not fit, if a library said it in words
  std::string key_;            ///< under which the plan is kept
};

/// Whether the module holds batch normalisation, whose statistics depend on the micro-batch.
bool has_batch_norm(const torch::nn::Module& module);

/// The fewest samples that the module is trained on at once where there are more: batch normalisation has no
/// statistics of one vector, and poor ones of one image.
int64_t smallest_batch(const torch::nn::Module& module);

/// Why the bench's updates cannot be recorded, as far as device, recipe and data go; "" where they can.
std::string why_not_recorded(const Workbench& bench);

}  // namespace autotrain
