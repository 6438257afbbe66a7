#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/units.h"
#include "plan/search.h"

namespace autotrain::test {

/// Peak memory as a function of the micro-batch, as a caching allocator shows it: rounded blocks, steps
/// of library workspaces, use outside the allocator that jumps, and noise. All shares are of the budget.
struct MemoryShape {
  std::string name;
  /// Bytes per sample at `n` samples, relative to the affine case.
  std::function<double(double n, double capacity, Random& random)> bytes;
  double granted = 1;      ///< share that can really be had: more is refused, whatever the budget says
  bool silent = false;     ///< a library fails where the system refuses, and nobody says how much was in use
  double kept_growth = 0;  ///< share that every new size adds to all trials after it
  double passing_growth = 0;  ///< share that a new size adds to its own trial
};

inline const std::vector<MemoryShape>& memory_shapes() {
  const auto affine = [](double n, double, Random&) { return n; };
  const auto noisy = [](double n, double, Random& r) { return n * (1 + 0.01 * (2 * r.uniform() - 1)); };
  static const std::vector<MemoryShape> shapes = {
      {"affine", affine},
      {"noisy", noisy},
      {"workspace steps",  // a faster algorithm with a workspace takes over, and another gives it up again
       [](double n, double c, Random&) {
         const double part = n / c;
         return n + (part > 0.3 && part < 0.45 ? 0.12 * c : part > 0.7 ? 0.05 * c : 0.0);
       }},
      {"convex", [](double n, double c, Random&) { return 0.5 * n + 0.5 * n * n / c; }},
      {"concave", [](double n, double c, Random&) { return c * std::pow(n / c, 0.7); }},
      {"stochastic",  // one of several algorithms at random, whatever the size
       [](double n, double c, Random& r) { return n + 0.04 * c * static_cast<double>(r.below(3)); }},
      {.name = "ceiling under the band", .bytes = noisy, .granted = 0.7},
      {.name = "ceiling in the band", .bytes = noisy, .granted = 0.86},
      {.name = "silent ceiling", .bytes = noisy, .granted = 0.7, .silent = true},
      {.name = "growth that is kept", .bytes = noisy, .kept_growth = 0.015},
      {.name = "growth that passes", .bytes = noisy, .passing_growth = 0.05},
      {.name = "ceiling and growth",
       .bytes = noisy,
       .granted = 0.75,
       .kept_growth = 0.01,
       .passing_growth = 0.02},
      {.name = "silent ceiling and growth",
       .bytes = noisy,
       .granted = 0.75,
       .silent = true,
       .kept_growth = 0.01},
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
    ProbeRecord record;
    record.micro_batch = size;
    record.allocated_bytes = floor_ + static_cast<int64_t>(peak);
    record.peak_bytes = floor_ + outside(size) + round_up(static_cast<int64_t>(peak), 20 * kMiB);
    record.confirmed = confirm;
    if (record.peak_bytes > granted()) return failed(size, record.peak_bytes);
    judge(record, budget_, target_high);
    return record;
  }

 private:
  int64_t share(double part) const { return static_cast<int64_t>(part * static_cast<double>(budget_)); }
  int64_t granted() const { return share(shape_.granted); }

  // Blocks of 20 MiB, use that appears with the first real step, and what libraries keep for each size.
  int64_t outside(int64_t size) {
    const bool is_new = sizes_.insert(size).second;
    const auto sizes = static_cast<double>(sizes_.size());
    return (size > 1 ? 40 : 10) * kMiB + share(shape_.kept_growth * sizes) +
           (is_new ? share(shape_.passing_growth) : 0);
  }

  // The system's refusal says what would have been in use; a library's failure says nothing.
  ProbeRecord failed(int64_t size, int64_t needed) {
    ProbeRecord record;
    record.micro_batch = size;
    record.outcome = shape_.silent ? ProbeOutcome::kLibrary : ProbeOutcome::kRefused;
    if (shape_.silent) return record;
    const auto block = static_cast<int64_t>(0.1 * random_.uniform() * static_cast<double>(budget_));
    record.refused_bytes = std::min(needed, granted() + block);
    return record;
  }

  const MemoryShape& shape_;
  double capacity_;
  Random random_;
  int64_t budget_ = 0, floor_ = 0, samples_ = 0;
  std::set<int64_t> sizes_;
};

/// What the planner does with a strategy: runs trials, confirms those in the band and the one that ends the
/// search, goes on when a confirmation leaves the band, and lowers the budget when a refusal shows that less
/// is granted.
struct SimulatedSearch {
  SearchStep end;
  ProbeRecord last;  ///< the record of the size that was chosen
  int64_t trials = 0;
  int64_t budget_bytes = 0;  ///< in the end
};

inline SimulatedSearch simulate(NextSize next, SimulatedDevice& device, SearchLimits limits,
                                bool lower_budget = true) {
  std::vector<ProbeRecord> history;
  SimulatedSearch result;
  for (int64_t guard = 0; guard < 1000; ++guard) {
    const SearchStep step = next(history, limits);
    const auto known = std::find_if(history.begin(), history.end(),
                                    [&](const ProbeRecord& r) { return r.micro_batch == step.size; });
    if (step.done && (step.size == 0 || (known != history.end() && known->confirmed))) {
      result.end = step;
      result.budget_bytes = limits.budget_bytes;
      if (step.size > 0) result.last = *known;
      return result;
    }
    ProbeRecord record = device.run(step.size, limits.target_high, step.done);
    result.trials += step.done ? 0 : 1;  // a confirmation extends the trial that succeeded
    if (!step.done && record.fits() && record.fill >= limits.target_low)
      record = device.run(step.size, limits.target_high, /*confirm=*/true);
    if (known != history.end()) {
      *known = record;
    } else {
      history.push_back(record);
    }
    if (lower_budget) limits.budget_bytes = granted_bytes(history, limits);
    for (ProbeRecord& each : history) judge(each, limits.budget_bytes, limits.target_high);
  }
  throw std::logic_error("the search does not end");
}

/// The same for a search that takes the budget as it is announced.
inline SimulatedSearch simulate_alone(NextSize next, SimulatedDevice& device, const SearchLimits& limits) {
  return simulate(next, device, limits, /*lower_budget=*/false);
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
