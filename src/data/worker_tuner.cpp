#include "data/worker_tuner.h"

namespace autotrain {
namespace {

constexpr int64_t kUpdates = 8;        // a measurement has at least so many
constexpr double kSeconds = 0.5;       // and lasts at least so long
constexpr int64_t kSettling = 2;       // updates
constexpr double kMuchWaiting = 0.02;  // of the time
constexpr double kGain = 1.03;         // in samples per second, or a thread is not worth its core

}  // namespace

int64_t WorkerTuner::after_update(int64_t samples, double seconds, double wait_seconds) {
  if (workers_ >= most_ && !trying_) return workers_;
  if (settling_ > 0) {
    --settling_;
    return workers_;
  }
  ++updates_;
  samples_ += static_cast<double>(samples);
  seconds_ += seconds;
  wait_seconds_ += wait_seconds;
  if (updates_ >= kUpdates && seconds_ >= kSeconds) judge();
  return workers_;
}

void WorkerTuner::judge() {
  const double rate = samples_ / seconds_;
  const bool waiting = wait_seconds_ > kMuchWaiting * seconds_;
  updates_ = 0;
  samples_ = seconds_ = wait_seconds_ = 0;
  if (trying_ && rate < rate_before_ * kGain) {
    most_ = --workers_;  // it did not pay, and nor would another
    trying_ = false;
    return;
  }
  trying_ = waiting && workers_ < most_;
  if (!trying_) return;
  rate_before_ = rate;
  ++workers_;
  settling_ = kSettling;
}

}  // namespace autotrain
