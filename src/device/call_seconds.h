#pragma once

#include <functional>

#include "device/device.h"

namespace autotrain {

/// How long a call takes on an idle device.
struct CallSeconds {
  double whole = 0;  ///< until the device is done
  double host = 0;   ///< of it, until the host has asked the device for everything
};

/// Times one call, before and after which it waits for the device. `call` itself must not wait for it, or
/// `host` says nothing.
CallSeconds seconds_of_call(const Device& device, const std::function<void()>& call);

/// Whether launching kernels one by one may keep the device waiting: the host needs a good part of the time
/// for it.
bool launches_show(const CallSeconds& seconds);

}  // namespace autotrain
