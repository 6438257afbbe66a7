#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "autotrain/plan.h"
#include "device/device.h"
#include "plan/search.h"

namespace autotrain {

/// Sees every trial as it happens.
struct TrialListener {
  std::function<void(int64_t size)> on_start = [](int64_t) {};
  std::function<void(const ProbeRecord&)> on_end = [](const ProbeRecord&) {};
};

/// After what a trial ran first, decides whether it goes on to a confirmation.
using ExtendTrial = std::function<bool(const ProbeRecord& so_far)>;

/// Runs work of a size from clean caches on and measures it. A trial that has one kind of work only need not
/// ask `extend`, and is confirmed when it fits.
using SizeTrial = std::function<ProbeRecord(int64_t size, const ExtendTrial& extend)>;

/// Makes what trials were granted the budget from now on, and warns of it; false: it was the budget already.
/// @param source of the lowered budget.
bool lower_budget_to(int64_t granted, const std::string& source, Device& device);

/// The search for a size, whatever is tried at it: of training, of prediction, of a sweep. Trials are run
/// until a strategy is done; one that was refused below the budget lowers it, for all that follows; where not
/// even the smallest size is below the band's edge but inside the budget, the edge rises.
class SizeSearch {
 public:
  struct Options {
    SearchLimits limits;  ///< its budget is the device's
    const StrategyRow& strategy;
    SizeTrial trial;
    std::function<std::string(int64_t size)> name;            ///< of a size, in sentences: "micro-batch 16"
    std::function<std::string(const ProbeRecord&)> in_words;  ///< of a trial, for the log
    std::function<void(ProbeRecord&)> judge_also = [](ProbeRecord&) {};  ///< by more than its memory
    TrialListener listener = {};
    std::vector<ProbeRecord> known = {};  ///< trials that were made before, of which none is made again
  };

  struct Found {
    int64_t size = 0;
    ProbeRecord record;
    SearchReason reason = SearchReason::kFixed;
  };

  SizeSearch(Device& device, Options options);

  /// The size that the strategy ends with, confirmed by a whole trial; nothing when not even the smallest one
  /// is inside the budget. @throws whatever a trial throws.
  std::optional<Found> find();

  /// The same up to `cap`, as far as trials that are not confirmed tell; nothing when none is in the band.
  std::optional<Found> look_up_to(int64_t cap);

  /// A whole trial of the size, judged by what is granted; one that ended its process is not made again.
  ProbeRecord confirm(int64_t size);

  /// Confirms a size that the user typed. Above the band but inside the budget it is warned of.
  /// @return nothing when it is not inside the budget.
  std::optional<Found> take_typed(int64_t size);

  /// Holds the trial against what the budget and the band's edge came to.
  void judge(ProbeRecord& record) const;

  const SearchLimits& limits() const { return options_.limits; }
  const std::vector<ProbeRecord>& history() const { return history_; }  ///< one trial a size: the latest
  const std::vector<ProbeRecord>& trials() const { return all_; }       ///< every trial, in order

 private:
  Found search(SearchLimits limits);
  ProbeRecord run_trial(int64_t size, const ExtendTrial& extend);
  void keep(const ProbeRecord& record);
  void distrust_short_trials(const ProbeRecord& short_trial, const ProbeRecord& whole);
  void lower_budget();
  void judge_anew();
  bool raise_the_edge();
  Found named(Found found) const;

  Device& device_;
  Options options_;
  const SearchLimits announced_;  // before any trial
  const std::string announced_source_;
  std::vector<ProbeRecord> history_;
  std::vector<ProbeRecord> all_;
  bool whole_trials_ = false;  // each from now on with everything that a confirmation runs
  int64_t distrusted_ = 0;     // trials that were dropped from the history
};

}  // namespace autotrain
