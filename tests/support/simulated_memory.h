#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/units.h"
#include "plan/search.h"

namespace autotrain::test {

/// Peak memory as a function of the micro-batch, as a caching allocator shows it: rounded blocks, steps
/// of library workspaces, use outside the allocator that jumps, and noise.
struct MemoryShape {
  std::string name;
  /// Bytes per sample at `n` samples, relative to the affine case.
  std::function<double(double n, double capacity, Random& random)> bytes;
};

inline const std::vector<MemoryShape>& memory_shapes() {
  static const std::vector<MemoryShape> shapes = {
      {"affine", [](double n, double, Random&) { return n; }},
      {"noisy", [](double n, double, Random& r) { return n * (1 + 0.01 * (2 * r.uniform() - 1)); }},
      {"workspace steps",  // a faster algorithm with a workspace takes over, and another gives it up again
       [](double n, double c, Random&) {
         const double part = n / c;
         return n + (part > 0.3 && part < 0.45 ? 0.12 * c : part > 0.7 ? 0.05 * c : 0.0);
       }},
      {"convex", [](double n, double c, Random&) { return 0.5 * n + 0.5 * n * n / c; }},
      {"concave", [](double n, double c, Random&) { return c * std::pow(n / c, 0.7); }},
      {"stochastic",  // one of several algorithms at random, whatever the size
       [](double n, double c, Random& r) { return n + 0.04 * c * static_cast<double>(r.below(3)); }},
  };
  return shapes;
}

/// A device on which about `capacity` samples fill the budget.
class SimulatedDevice {
 public:
  SimulatedDevice(const MemoryShape& shape, double capacity, double floor_share, uint64_t seed)
      : shape_(shape), capacity_(capacity), random_(seed) {
    budget_ = 8 * kGiB;
    floor_ = static_cast<int64_t>(floor_share * static_cast<double>(budget_));
  }

  int64_t budget_bytes() const { return budget_; }
  int64_t floor_bytes() const { return floor_; }
  int64_t samples_run() const { return samples_; }

  /// One trial, or the two further updates that confirm it. A trial that does not fit costs what fits.
  ProbeRecord run(int64_t size, double target_high, bool confirm) {
    const double per_unit = static_cast<double>(budget_ - floor_) / capacity_;
    double peak = 0;
    for (int update = 0; update < (confirm ? 2 : 1); ++update) {
      peak = std::max(peak, shape_.bytes(static_cast<double>(size), capacity_, random_) * per_unit);
      samples_ += std::min(size, static_cast<int64_t>(std::ceil(capacity_)));
    }
    // Blocks of 20 MiB, and outside use that appears with the first real step.
    const int64_t outside = size > 1 ? 40 * kMiB : 10 * kMiB;
    ProbeRecord record;
    record.micro_batch = size;
    record.allocated_bytes = floor_ + static_cast<int64_t>(peak);
    record.peak_bytes = floor_ + outside + round_up(static_cast<int64_t>(peak), 20 * kMiB);
    record.fill = static_cast<double>(record.peak_bytes) / static_cast<double>(budget_);
    record.confirmed = confirm;
    if (record.fill > 1) {
      record = ProbeRecord{};
      record.micro_batch = size;
      record.outcome = ProbeOutcome::kRefused;
    } else if (record.fill > target_high) {
      record.outcome = ProbeOutcome::kAboveBand;
    }
    return record;
  }

 private:
  const MemoryShape& shape_;
  double capacity_;
  Random random_;
  int64_t budget_ = 0, floor_ = 0, samples_ = 0;
};

/// What the planner does with a strategy: runs trials, confirms the one that ends the search, goes on
/// when the confirmation leaves the band.
struct SimulatedSearch {
  SearchStep end;
  ProbeRecord last;  ///< the record of the size that was chosen
  int64_t trials = 0;
};

inline SimulatedSearch simulate(NextSize next, SimulatedDevice& device, const SearchLimits& limits) {
  std::vector<ProbeRecord> history;
  SimulatedSearch result;
  for (int64_t guard = 0; guard < 1000; ++guard) {
    const SearchStep step = next(history, limits);
    const auto known = std::find_if(history.begin(), history.end(),
                                    [&](const ProbeRecord& r) { return r.micro_batch == step.size; });
    if (step.done && (step.size == 0 || (known != history.end() && known->confirmed))) {
      result.end = step;
      if (step.size > 0) result.last = *known;
      return result;
    }
    const ProbeRecord record = device.run(step.size, limits.target_high, step.done);
    result.trials += step.done ? 0 : 1;  // a confirmation extends the trial that succeeded
    if (known != history.end()) {
      *known = record;
    } else {
      history.push_back(record);
    }
  }
  throw std::logic_error("the search does not end");
}

/// The textbook: double until it fails, then bisect to the granularity of 2 %.
inline SearchStep doubling_and_bisecting(const std::vector<ProbeRecord>& history,
                                         const SearchLimits& limits) {
  int64_t low = 0, high = 0;
  const ProbeRecord* best = nullptr;
  for (const ProbeRecord& r : history) {
    if (r.fits() && r.micro_batch > low) low = r.micro_batch, best = &r;
  }
  for (const ProbeRecord& r : history) {
    if (!r.fits() && r.micro_batch > low && (high == 0 || r.micro_batch < high)) high = r.micro_batch;
  }
  if (best != nullptr && best->fill >= limits.target_low) return {true, low, SearchReason::kInBand};
  if (low >= limits.cap) return {true, low, limits.cap_reason};
  if (high == 0) return {false, low == 0 ? 2 : std::min(2 * low, limits.cap), {}};
  if (high - low <= 1) return {true, low, low == 0 ? SearchReason::kDoesNotFit : SearchReason::kGranularity};
  return {false, (low + high) / 2, {}};
}

}  // namespace autotrain::test
