#include "loop/agenda.h"

#include <algorithm>

#include "base/units.h"

namespace autotrain {

IntervalClock::IntervalClock(Interval interval, const Progress& start)
    : interval_(interval), last_ticks_(ticks(start)) {}

int64_t IntervalClock::ticks(const Progress& now) const {
  const auto multiples = [](auto passed, double interval) {
    return whole_part(static_cast<double>(passed) / interval);
  };
  switch (interval_.unit) {
    case Interval::Unit::kNever: return 0;
    case Interval::Unit::kUpdates: return multiples(now.updates, interval_.count);
    case Interval::Unit::kSamples: return multiples(now.samples, interval_.count);
    case Interval::Unit::kEpochs:  // at most once for each sample
      return multiples(now.samples, std::max(1.0, interval_.count * static_cast<double>(now.dataset_size)));
    case Interval::Unit::kMinutes: return multiples(now.seconds, interval_.count * 60);
  }
  return 0;
}

bool IntervalClock::due(const Progress& now) {
  const int64_t present = ticks(now);
  const bool passed = present > last_ticks_;
  last_ticks_ = present;
  return passed;
}

}  // namespace autotrain
