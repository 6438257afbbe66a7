#include "data/loading_rates.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace autotrain {
namespace {

// Threads load whole batches, which then come several at once: exactly as many as needed would wait at times.
constexpr double kMargin = 1.15;

}  // namespace

int64_t threads_for(const LoadingRates& rates, int64_t most) {
  if (!rates.known()) return 1;
  const double wanted = std::ceil(rates.threads() * kMargin);
  return static_cast<int64_t>(std::clamp(wanted, 1.0, static_cast<double>(std::max<int64_t>(1, most))));
}

double expected_waiting(const LoadingRates& rates, int64_t threads) {
  if (!rates.known()) return 0;
  return std::max(0.0, 1 - static_cast<double>(threads) / rates.threads());
}

void LoadTimes::add(double seconds, int64_t samples) {
  const std::lock_guard lock(mutex_);
  loaded_.push_back({seconds, samples});
}

std::vector<LoadTimes::Loaded> LoadTimes::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(loaded_, {});
}

double LoadTimes::take_mean() {
  double seconds = 0, samples = 0;
  for (const Loaded& batch : take()) {
    seconds += batch.seconds;
    samples += static_cast<double>(batch.samples);
  }
  return samples > 0 ? seconds / samples : 0;
}

double LoadTimes::take_typical() {
  std::vector<double> each;
  for (const Loaded& batch : take()) each.push_back(batch.seconds / static_cast<double>(batch.samples));
  if (each.empty()) return 0;
  const auto quartile = each.begin() + std::ssize(each) / 4;
  std::ranges::nth_element(each, quartile);
  return *quartile;
}

}  // namespace autotrain
