#include "loop/agenda.h"

#include <algorithm>
#include <cmath>

namespace autotrain {

IntervalClock::IntervalClock(Interval interval, const Progress& start)
    : interval_(interval), last_ticks_(ticks(start)) {}

int64_t IntervalClock::ticks(const Progress& now) const {
  const double passed = [&] {
    switch (interval_.unit) {
      case Interval::Unit::kNever: return 0.0;
      case Interval::Unit::kUpdates: return static_cast<double>(now.updates);
      case Interval::Unit::kSamples: return static_cast<double>(now.samples);
      case Interval::Unit::kEpochs:
        return static_cast<double>(now.samples) / static_cast<double>(now.dataset_size);
      case Interval::Unit::kMinutes: return now.seconds / 60;
    }
    return 0.0;
  }();
  return interval_.count > 0 ? static_cast<int64_t>(std::min(std::floor(passed / interval_.count), 0x1p62))
                             : 0;
}

bool IntervalClock::due(const Progress& now) {
  const int64_t present = ticks(now);
  const bool passed = present > last_ticks_;
  last_ticks_ = present;
  return passed;
}

}  // namespace autotrain
