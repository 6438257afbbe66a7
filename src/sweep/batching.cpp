#include "sweep/batching.h"

#include <algorithm>

namespace autotrain {

double batch_start(const Batching& batching, const std::vector<double>& arrivals, size_t first, double now) {
  double start = arrivals[first] + batching.window_seconds;
  const size_t last = first + static_cast<size_t>(batching.most) - 1;
  if (last < arrivals.size()) start = std::min(start, arrivals[last]);
  return std::max(start, now);
}

size_t batch_size(const Batching& batching, const std::vector<double>& arrivals, size_t first, double now) {
  const auto begin = arrivals.begin() + static_cast<std::ptrdiff_t>(first);
  const auto there = static_cast<size_t>(std::upper_bound(begin, arrivals.end(), now) - begin);
  return std::clamp<size_t>(there, 1, static_cast<size_t>(batching.most));
}

}  // namespace autotrain
