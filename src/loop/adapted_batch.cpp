#include "loop/adapted_batch.h"

#include <algorithm>
#include <cmath>

#include "base/units.h"

namespace autotrain {
namespace {

constexpr double kMostAtOnce = 2;
constexpr double kWorthIt = 1.2;

bool worth_it(double from, double to) {
  return std::max(to / from, from / to) >= kWorthIt;
}

// The last multiple of `unit` on the way from `now` to `aim`.
int64_t on_the_way(int64_t now, int64_t aim, int64_t unit) {
  return (aim > now ? aim / unit : ceil_div(aim, unit)) * unit;
}

}  // namespace

int64_t adapted_batch(int64_t effective, const NoiseScale& noise, const BatchBounds& bounds) {
  if (!noise.samples || !noise.high) return effective;
  const auto now = static_cast<double>(effective);
  if (!worth_it(now, *noise.samples)) return effective;
  const double near = std::clamp(*noise.samples, now / kMostAtOnce, now * kMostAtOnce);
  const auto whole = static_cast<int64_t>(near < now ? std::ceil(near) : std::floor(near));
  const int64_t aim = std::clamp(whole, bounds.least, bounds.most);
  for (const int64_t unit : {bounds.whole, bounds.lanes, int64_t{1}}) {
    const int64_t changed = on_the_way(effective, aim, unit);
    const bool between = std::min(effective, aim) <= changed && changed <= std::max(effective, aim);
    if (between && changed > 0 && worth_it(now, static_cast<double>(changed))) return changed;
  }
  return effective;
}

}  // namespace autotrain
