#include "sweep/call_times.h"

#include <algorithm>
#include <limits>

#include "base/json.h"
#include "measure/timing.h"

namespace autotrain {

double CallTimes::at(double share) const {
  return quantile(sorted, share);
}

CallTimes call_times(const std::vector<StudyResult>& rounds) {
  std::vector<std::vector<double>> calls;
  std::vector<double> medians;
  size_t fewest = std::numeric_limits<size_t>::max();
  for (const StudyResult& round : rounds) {
    calls.push_back(round.value.at("latencies_seconds").get<std::vector<double>>());
    medians.push_back(median_of(calls.back()));
    fewest = std::min(fewest, calls.back().size());
  }
  CallTimes times;
  for (const auto& round : calls)
    times.sorted.insert(times.sorted.end(), round.begin(),
                        round.begin() + static_cast<std::ptrdiff_t>(fewest));
  std::ranges::sort(times.sorted);
  if (const auto interval = median_interval(times.sorted))
    times.half_width = interval->half_width(times.at(0.5));
  const auto [least, most] = std::ranges::minmax(medians);
  if (medians.size() > 1) times.drift = most / least - 1;
  return times;
}

}  // namespace autotrain
