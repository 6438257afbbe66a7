#pragma once

#include <cstdint>

namespace autotrain {

/// Finds how many loader threads pay: one more as long as the step waits for data and one more made
/// training faster. Fed with what was measured, so it needs no clock.
class WorkerTuner {
 public:
  /// @param most threads ever asked for; equal to `workers`: nothing is tuned.
  WorkerTuner(int64_t workers, int64_t most) : workers_(workers), most_(most) {}

  /// After each update. @return the threads to load with from now on.
  int64_t after_update(int64_t samples, double seconds, double wait_seconds);

  int64_t workers() const { return workers_; }

 private:
  void judge();

  int64_t workers_, most_;
  bool trying_ = false;     // the newest thread is on trial
  double rate_before_ = 0;  // samples per second without it
  int64_t settling_ = 0;    // updates not counted, since batches were ready from before
  int64_t updates_ = 0;     // of this measurement
  double samples_ = 0, seconds_ = 0, wait_seconds_ = 0;
};

}  // namespace autotrain
