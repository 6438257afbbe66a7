#pragma once

#include <array>

#include "autotrain/plan.h"
#include "base/enum_names.h"

namespace autotrain {

constexpr auto enum_names(ProbeOutcome) {
  using O = ProbeOutcome;
  return std::array{EnumName<O>{O::kFits, "fits"},        EnumName<O>{O::kAboveBand, "above_band"},
                    EnumName<O>{O::kRefused, "refused"},  EnumName<O>{O::kRetried, "retried"},
                    EnumName<O>{O::kLibrary, "library"},  EnumName<O>{O::kIndexLimit, "index_limit"},
                    EnumName<O>{O::kTooSlow, "too_slow"}, EnumName<O>{O::kCrashed, "crashed"}};
}

constexpr auto enum_names(SearchReason) {
  using R = SearchReason;
  return std::array{EnumName<R>{R::kInBand, "in_band"},
                    EnumName<R>{R::kEffectiveBatch, "effective_batch"},
                    EnumName<R>{R::kDataset, "dataset"},
                    EnumName<R>{R::kCap, "cap"},
                    EnumName<R>{R::kIndexLimit, "index_limit"},
                    EnumName<R>{R::kGranularity, "granularity"},
                    EnumName<R>{R::kAboveBand, "above_band"},
                    EnumName<R>{R::kSearchLimit, "search_limit"},
                    EnumName<R>{R::kKnee, "knee"},
                    EnumName<R>{R::kLatency, "latency"},
                    EnumName<R>{R::kFixed, "fixed"},
                    EnumName<R>{R::kDoesNotFit, "does_not_fit"}};
}

constexpr auto enum_names(Origin) {
  using O = Origin;
  return std::array{EnumName<O>{O::kAsked, "asked"}, EnumName<O>{O::kFound, "found"},
                    EnumName<O>{O::kDefault, "default"}};
}

/// How a trial ended, for people: "above the band".
std::string in_words(ProbeOutcome outcome);

/// How full the executed size makes the budget: "88.0 % of the budget", and where samples differ in cost " at
/// the worst shape, typical 51.0 %".
std::string fill_in_words(const BatchPlan& plan);

/// How a rank's share of an update is cut: "6 × 41 + 10".
std::string window_in_words(const BatchPlan& plan);

/// The same of an update of so many samples over all ranks.
std::string window_in_words(const BatchPlan& plan, int64_t samples);

/// Where the effective batch changes, a sentence for each stage: "from sample 100000 on: effective 256 in 4 ×
/// 64, learning rate 0.002"; of one that adapts, its bounds too. Else nothing.
std::vector<std::string> stages_in_words(const BatchPlan& plan);

/// "micro-batch 128 is as fast as 512 …", of the plan's `fast_micro_batch` when it is smaller than what is
/// executed and takes clearly less memory; "" otherwise. Of several trials of a size the fastest counts.
std::string smaller_size_advice(const BatchPlan& plan);

}  // namespace autotrain
