#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "sweep/batching.h"

namespace autotrain {

/// Requests that arrive at times which are fixed beforehand, whatever becomes of them, and the servers that
/// take them in batches. Servers are threads, or processes that were started after this object was made: what
/// they share lies in memory that both see. One server at a time waits for a batch to fill.
class RequestQueue {
 public:
  /// @param arrivals seconds from the start, ascending; not empty.
  /// @param servers that will call `start`.
  /// @param patience_seconds for which servers go on after the last arrival, beside the window and as long
  /// again as all took to come.
  RequestQueue(std::vector<double> arrivals, Batching batching, int64_t servers, double patience_seconds = 4);
  ~RequestQueue();
  RequestQueue(const RequestQueue&) = delete;
  RequestQueue& operator=(const RequestQueue&) = delete;

  const std::vector<double>& arrivals() const { return arrivals_; }

  /// Says that a server is ready and waits until all are: then the clock starts.
  /// @throws Error(kInterrupted), as `take` does.
  void start();

  /// Seconds since the start.
  double now() const;

  /// Waits for the next batch, of which `first`, `samples` and `taken` are told. Nothing when all were taken,
  /// or when servers are so far behind that nothing is learned from going on: the last request came long ago.
  std::optional<ServedBatch> take();

  /// Keeps what became of a batch.
  void keep(const ServedBatch& batch);

  /// Ends the service for all servers: one of them failed.
  void abandon();

  /// Bytes that a process of the service held at most; of several they are added up.
  void add_peak_bytes(int64_t bytes);
  int64_t peak_bytes() const;

  /// In the order in which they were kept. Precondition: no server is at work.
  std::vector<ServedBatch> served() const;

 private:
  struct Shared;  // lies in shared memory, before room for a batch of each request
  class Door;

  ServedBatch* batches() const;
  void sleep_until(double seconds) const;

  const std::vector<double> arrivals_;
  const Batching batching_;
  const int64_t servers_;
  const double patience_seconds_;
  const size_t bytes_;
  Shared* shared_ = nullptr;
};

}  // namespace autotrain
