#include "device/call_seconds.h"

#include "base/clock.h"

namespace autotrain {

CallSeconds seconds_of_call(const Device& device, const std::function<void()>& call) {
  device.synchronize();
  const Stopwatch watch;
  call();
  const double host = watch.seconds();
  device.synchronize();
  return {.whole = watch.seconds(), .host = host};
}

bool launches_show(const CallSeconds& seconds) {
  constexpr double kShownShare = 0.4;
  return seconds.host > kShownShare * seconds.whole;
}

}  // namespace autotrain
