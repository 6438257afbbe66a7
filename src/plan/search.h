#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "autotrain/plan.h"
#include "recipe/keys.h"

namespace autotrain {

/// What bounds a search. All sizes are samples per micro-batch on one rank.
struct SearchLimits {
  int64_t budget_bytes = 0;
  double target_low = 0.8, target_high = 0.9;
  int64_t minimum = 1;  ///< smallest useful size; 2 with batch normalisation
  int64_t cap = 1;      ///< largest useful size
  SearchReason cap_reason = SearchReason::kEffectiveBatch;
  int64_t multiple_of = 1;
  double throughput_share = 0.05;  ///< of the best samples per second that a fast size may lose
  int64_t floor_bytes = 0;         ///< known to be needed at any size: parameters, state, gradients, data
  int64_t max_probes = 12;
  double max_seconds = 120;
  Pivot pivot = Pivot::kInterpolate;

  /// Share of a size that was too slow: no size is tried that is nearer below it than that to one that
  /// fitted.
  double resolution = 0;
};

/// The budget, or less where a trial was refused below it: what is really granted. Never less than what a
/// trial that ran had.
int64_t granted_bytes(const std::vector<ProbeRecord>& history, const SearchLimits& limits);

/// Holds a trial that ran against another budget than it was measured under: its fill, and whether it fits.
void judge(ProbeRecord& probe, int64_t budget_bytes, double target_high);

/// Fills between which a search is to end, as fractions of the budget.
struct Band {
  double low = 0, high = 0;
};

/// Above the band but inside the budget is no refusal. Where that is all that the smallest size can be, a
/// search goes on with a higher upper edge: halfway between that size's peak and the budget, then the budget
/// itself.
/// @param asked the recipe's upper edge. @return nothing when the smallest size is not inside the budget, or
/// the edge rose that far already.
std::optional<Band> raised_band(const std::vector<ProbeRecord>& history, const SearchLimits& limits,
                                double asked);

/// Try `size` next, or stop with it.
struct SearchStep {
  bool done = false;
  int64_t size = 0;  ///< done: the capacity; 0 when nothing fits
  SearchReason reason = SearchReason::kInBand;
};

/// The search: a pure function of what was measured so far, every trial judged by `limits.budget_bytes`.
/// Memory need not be monotone in the size, so nothing is concluded about a size that was not run; a size
/// that is returned has been run.
///
/// Feed it only numbers that all ranks agreed on, and ranks stay in lock-step.
using NextSize = SearchStep (*)(const std::vector<ProbeRecord>& history, const SearchLimits& limits);

/// Fills the band: a binary search that interpolates its pivots.
SearchStep next_size_in_band(const std::vector<ProbeRecord>& history, const SearchLimits& limits);

/// The smallest size that is fast, as `limits.throughput_share` says. Trials must be timed.
SearchStep next_size_for_throughput(const std::vector<ProbeRecord>& history, const SearchLimits& limits);

/// The trial of the smallest size that fitted and reached the best measured samples per second less `share`;
/// null when none fitted.
const ProbeRecord* smallest_fast(const std::vector<ProbeRecord>& history, double share);

/// The trial of the largest size below `size` that fitted; null when there is none.
const ProbeRecord* fit_below(const std::vector<ProbeRecord>& history, int64_t size);

/// The trial of this size; null when there is none.
const ProbeRecord* find_size(const std::vector<ProbeRecord>& history, int64_t size);

struct StrategyRow {
  ChoiceSpec spec;
  NextSize next;
  bool timed = false;  ///< trials must measure throughput, not only memory
};

/// Every search strategy a recipe can name.
const std::vector<StrategyRow>& strategy_table();

/// @throws Error(kBadRecipe) when there is no such strategy.
const StrategyRow& find_strategy(const std::string& name);

}  // namespace autotrain
