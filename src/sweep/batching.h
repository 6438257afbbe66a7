#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace autotrain {

/// How waiting requests become batches: those that are there are taken, as soon as there are `most` of them
/// or the oldest has waited for `window_seconds`.
struct Batching {
  int64_t most = 1;
  double window_seconds = 0;
};

/// When the next batch starts, which is known to a server that waits for it: nothing later than that decides.
/// @param arrivals ascending. @param first the oldest request that nobody has taken. @param now of a server
/// that is free.
double batch_start(const Batching& batching, const std::vector<double>& arrivals, size_t first, double now);

/// How many requests a batch has that starts now. At least one. Precondition: now ≥ `batch_start`.
size_t batch_size(const Batching& batching, const std::vector<double>& arrivals, size_t first, double now);

/// A batch on its way, in seconds of the clock that arrivals have.
struct ServedBatch {
  size_t first = 0;    ///< of its requests
  size_t samples = 0;  ///< requests
  double taken = 0;    ///< from the queue
  double loaded = 0;
  double begun = 0;  ///< copying, which may wait for the batch before
  double copied = 0;
  double computed = 0;
  double done = 0;  ///< outputs are in main memory

  bool operator==(const ServedBatch&) const = default;
};

}  // namespace autotrain
