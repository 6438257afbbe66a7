#include "loop/rank_totals.h"

#include <algorithm>
#include <numeric>

namespace autotrain {

RankTimes RankTotals::count(const std::vector<double>& seconds) {
  ranks_.resize(seconds.size());
  for (size_t rank = 0; rank < seconds.size(); ++rank) ranks_[rank].seconds += seconds[rank];
  const auto [fastest, slowest] = std::ranges::minmax_element(seconds);
  const auto slowest_rank = slowest - seconds.begin();
  ++ranks_[static_cast<size_t>(slowest_rank)].slowest;
  slowest_seconds_ += *slowest;
  const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  return {.fastest = *fastest,
          .mean = sum / static_cast<double>(seconds.size()),
          .slowest = *slowest,
          .slowest_rank = slowest_rank};
}

double RankTotals::wait_fraction() const {
  if (slowest_seconds_ <= 0) return 0;
  double all = 0;
  for (const RankSummary& rank : ranks_) all += rank.seconds;
  return 1 - all / static_cast<double>(ranks_.size()) / slowest_seconds_;
}

}  // namespace autotrain
