#include "plan/size_grid.h"

#include <algorithm>
#include <cmath>

namespace autotrain {
namespace {

constexpr int64_t kSizesToDouble = 8;  // between a size and its double

// The distance of sizes near `size` on a grid that has so many between it and its double.
int64_t step_near(int64_t size, const SearchLimits& limits, int64_t sizes_to_double) {
  int64_t step = limits.multiple_of;
  while (2 * sizes_to_double * step <= size) step *= 2;
  return step;
}

int64_t between(double size, int64_t low, int64_t high, const SearchLimits& limits, int64_t sizes_to_double) {
  const int64_t step = step_near(low, limits, sizes_to_double);
  const int64_t first = std::min((low / step + 1) * step, std::max(limits.cap, low + 1));
  if (first >= high) return 0;
  const int64_t most = high - 1;
  const int64_t wanted = size >= static_cast<double>(most) ? most : static_cast<int64_t>(std::max(0.0, size));
  if (wanted == limits.cap) return wanted;
  const int64_t step_below = step_near(wanted, limits, sizes_to_double);
  return std::max(first, wanted / step_below * step_below);
}

}  // namespace

int64_t grid_between(double size, int64_t low, int64_t high, const SearchLimits& limits) {
  return between(size, low, high, limits, kSizesToDouble);
}

int64_t half_step_between(double size, int64_t low, int64_t high, const SearchLimits& limits) {
  const bool single = step_near(low, limits, kSizesToDouble) == limits.multiple_of;
  return single ? size_between(size, low, high, limits)
                : between(size, low, high, limits, 2 * kSizesToDouble);
}

int64_t size_between(double size, int64_t low, int64_t high, const SearchLimits& limits) {
  const int64_t preferred = multiple_between(size, low, high, limits.multiple_of);
  return preferred > 0 ? preferred : multiple_between(size, low, high, 1);
}

int64_t multiple_between(double size, int64_t low, int64_t high, int64_t step) {
  const int64_t first = (low / step + 1) * step;
  const int64_t last = (high - 1) / step * step;
  if (first > last) return 0;
  const double clamped = std::clamp(size, static_cast<double>(first), static_cast<double>(last));
  return std::clamp(static_cast<int64_t>(std::llround(clamped / static_cast<double>(step))) * step, first,
                    last);
}

}  // namespace autotrain
