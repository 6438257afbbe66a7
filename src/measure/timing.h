#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace autotrain {

/// Of sorted values, the one below which the share `q` of them lies, interpolated between neighbours.
/// Precondition: `sorted` is not empty, q in [0, 1].
double quantile(const std::vector<double>& sorted, double q);

/// Their quantile 0.5. Precondition: `values` is not empty.
double median_of(std::vector<double> values);

/// Where the true median lies with a probability of at least 95 %, whatever the distribution.
struct MedianInterval {
  double low = 0;
  double high = 0;

  /// Half its length, relative to `median`.
  double half_width(double median) const { return (high - low) / 2 / median; }
};

/// From order statistics: the values that have so few below (above) them that this had a probability of at
/// most 2.5 % if the true median lay beyond. Nothing of fewer than six values, which cannot tell.
std::optional<MedianInterval> median_interval(const std::vector<double>& sorted);

/// How often a short work is timed that is repeated many times over in a pass.
struct PassRule {
  double pass_seconds = 0.02;  ///< of the shortest pass that counts, so that starting one takes next to none
  int least = 3, most = 12;    ///< passes that count
  double seconds = 1;          ///< of all passes, after which the least are enough
};

/// Seconds of one repeat in the quickest pass. Passes have twice as many repeats whenever one was too short:
/// also after another had seemed long enough because the machine had other work.
/// @param time_pass what so many repeats took, in seconds above 0.
double seconds_of_repeat(const std::function<double(int64_t repeats)>& time_pass, const PassRule& rule);

/// When enough was repeated.
struct RepeatRule {
  double half_width = 0.025;  ///< of the median's interval, relative
  size_t least = 100;         ///< repeats, so that a 99th percentile is one
  size_t most = 2000;
  size_t at_least = 3;  ///< however long they take
  double seconds = 2;
};

enum class RepeatEnd { kNarrow, kSeconds, kRepeats };

/// Why repeating ends after these, which took `seconds`; nothing: it goes on.
std::optional<RepeatEnd> repeat_end(const std::vector<double>& latencies, double seconds,
                                    const RepeatRule& rule);

}  // namespace autotrain
