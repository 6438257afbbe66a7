#pragma once

#include <cstdint>
#include <vector>

#include "autotrain/report.h"

namespace autotrain {

/// How long each of several ranks took for its passes over the windows of a session.
class RankTotals {
 public:
  /// @param seconds that the passes of one window took, by rank; not empty.
  RankTimes count(const std::vector<double>& seconds);

  /// Without their hosts; empty before the first window.
  const std::vector<RankSummary>& ranks() const { return ranks_; }

  /// Of the time that all passes took: how long a rank waited for the slowest one, on average.
  double wait_fraction() const;

 private:
  std::vector<RankSummary> ranks_;
  double slowest_seconds_ = 0;  // that the slowest ranks took, over all windows
};

}  // namespace autotrain
