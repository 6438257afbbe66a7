#pragma once

#include <chrono>

namespace autotrain {

/// Seconds of a clock that never goes back; only differences mean something.
inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class Stopwatch {
 public:
  double seconds() const { return steady_seconds() - start_; }
  void restart() { start_ = steady_seconds(); }

 private:
  double start_ = steady_seconds();
};

}  // namespace autotrain
