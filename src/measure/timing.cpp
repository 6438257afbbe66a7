#include "measure/timing.h"

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <cmath>
#include <limits>

namespace autotrain {

double quantile(const std::vector<double>& sorted, double q) {
  const double place = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const double beyond = place - static_cast<double>(below);
  if (beyond == 0) return sorted[below];  // what is above may be infinite
  return std::lerp(sorted[below], sorted[below + 1], beyond);
}

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  return quantile(values, 0.5);
}

std::optional<MedianInterval> median_interval(const std::vector<double>& sorted) {
  // How many of n values lie below the true median is binomial with p = 1/2.
  const boost::math::binomial below(static_cast<double>(sorted.size()), 0.5);
  size_t rank = 0;
  while (rank < sorted.size() / 2 && boost::math::cdf(below, static_cast<double>(rank)) <= 0.025) ++rank;
  if (rank == 0) return std::nullopt;
  return MedianInterval{sorted[rank - 1], sorted[sorted.size() - rank]};
}

double seconds_of_repeat(const std::function<double(int64_t repeats)>& time_pass, const PassRule& rule) {
  int64_t repeats = 1;
  int passes = 0;
  double quickest = std::numeric_limits<double>::infinity(), spent = 0;
  while (passes < rule.least || (passes < rule.most && spent < rule.seconds)) {
    const double pass = time_pass(repeats);
    spent += pass;
    if (pass < rule.pass_seconds) {
      repeats *= 2;
      passes = 0;
      continue;
    }
    quickest = std::min(quickest, pass / static_cast<double>(repeats));
    ++passes;
  }
  return quickest;
}

std::optional<RepeatEnd> repeat_end(const std::vector<double>& latencies, double seconds,
                                    const RepeatRule& rule) {
  if (latencies.size() >= rule.most) return RepeatEnd::kRepeats;
  if (latencies.size() >= rule.at_least && seconds >= rule.seconds) return RepeatEnd::kSeconds;
  const bool worth_a_look = latencies.size() >= rule.least && latencies.size() % 20 == 0;
  if (!worth_a_look) return std::nullopt;
  std::vector<double> sorted = latencies;
  std::ranges::sort(sorted);
  const auto interval = median_interval(sorted);
  const bool narrow = interval && interval->half_width(quantile(sorted, 0.5)) <= rule.half_width;
  return narrow ? std::optional(RepeatEnd::kNarrow) : std::nullopt;
}

}  // namespace autotrain
