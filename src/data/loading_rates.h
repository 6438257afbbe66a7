#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

namespace autotrain {

/// How fast the step takes samples, and how long a thread takes to load one: what decides how many threads
/// are needed. 0: not measured.
struct LoadingRates {
  double pass_samples_per_second = 0;  ///< of updates that never wait for data
  double load_seconds_per_sample = 0;  ///< of one thread

  bool known() const { return pass_samples_per_second > 0 && load_seconds_per_sample > 0; }

  /// Threads that load as fast as the step takes, on average: a fraction. Precondition: known.
  double threads() const { return pass_samples_per_second * load_seconds_per_sample; }
};

/// The threads to begin with: as many as the rates ask for and a margin, at least 1 and at most `most`. 1
/// where nothing was measured.
int64_t threads_for(const LoadingRates& rates, int64_t most);

/// The share of the time, in [0, 1), that the step waits for data when `threads` load.
double expected_waiting(const LoadingRates& rates, int64_t threads);

/// Adds up what loader threads took. Thread-safe.
class LoadTimes {
 public:
  /// Of one batch, by one thread.
  void add(double seconds, int64_t samples);

  /// Seconds of a thread for each sample since the last call; 0: nothing was loaded.
  double take_mean();

  /// Seconds of a thread for each sample in most batches since the last call: the lower quartile over
  /// batches, since what is read or made for the first time takes longer than it ever will again. 0: nothing
  /// was loaded.
  double take_typical();

 private:
  struct Loaded {
    double seconds = 0;
    int64_t samples = 0;
  };
  std::vector<Loaded> take();

  std::mutex mutex_;
  std::vector<Loaded> loaded_;
};

}  // namespace autotrain
