#pragma once

#include <optional>
#include <vector>

#include "study/study.h"

namespace autotrain {

/// The calls of all rounds together, equally many of each: a round in which the machine was fast has more of
/// them.
struct CallTimes {
  std::vector<double> sorted = {};        ///< seconds of each call, the shortest first
  std::optional<double> half_width = {};  ///< of the median's 95 % interval, relative; nothing: too few
  std::optional<double> drift = {};       ///< the largest median of a round ÷ the smallest, less 1

  double at(double share) const;  ///< the quantile
};

/// @param rounds of one point, each with its "latencies_seconds"; at least one.
CallTimes call_times(const std::vector<StudyResult>& rounds);

}  // namespace autotrain
