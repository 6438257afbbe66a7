#pragma once

#include <chrono>
#include <ctime>

namespace autotrain {

/// Seconds of a clock that never goes back; only differences mean something.
inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Seconds that this thread has computed.
inline double thread_cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

class Stopwatch {
 public:
  double seconds() const { return steady_seconds() - start_; }
  void restart() { start_ = steady_seconds(); }

 private:
  double start_ = steady_seconds();
};

}  // namespace autotrain
