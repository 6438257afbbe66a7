#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "sweep/batching.h"

namespace autotrain {

/// Seconds of each stage of a batch.
struct StageSeconds {
  double loading = 0, copying = 0, forward = 0, output = 0;

  double all() const { return loading + after_loading(); }
  double after_loading() const { return copying + forward + output; }
};

/// How long a batch takes by its samples, measured at some of them.
class ServiceTimes {
 public:
  void add(int64_t samples, const StageSeconds& seconds) { measured_[samples] = seconds; }
  bool empty() const { return measured_.empty(); }
  const std::map<int64_t, StageSeconds>& measured() const { return measured_; }

  /// Between two measured batches on the line through them, beyond the largest in its proportion.
  /// Precondition: not empty.
  StageSeconds at(int64_t samples) const;

 private:
  std::map<int64_t, StageSeconds> measured_;
};

/// Who takes batches from one queue.
struct Servers {
  int64_t count = 1;
  bool load_ahead = false;  ///< each loads its next batch while it computes one
};

/// What would become of the requests if every batch took exactly its time: an event after the other, without
/// a clock. @return the batches, in the order in which they are taken; every request is in one.
std::vector<ServedBatch> simulate_queue(const std::vector<double>& arrivals, const Batching& batching,
                                        const Servers& servers, const ServiceTimes& times);

/// Samples a second that are served while the queue is never empty.
double capacity_of(const Batching& batching, const Servers& servers, const ServiceTimes& times);

/// The mean wait of requests of a Poisson process before one server that takes each alone, in equally long
/// times (M/D/1): ρ ÷ (2·(1 − ρ)) · service, by the formula of Pollaczek and Khinchine. Infinite from ρ = 1
/// on.
double waiting_of_md1(double rate, double service_seconds);

}  // namespace autotrain
