#pragma once

#include <functional>
#include <string>

#include "autotrain/error.h"

namespace autotrain {

/// The device failed for this process. The run ends: nothing on the device is waited for, copied or
/// evaluated, for that would fail as well, or hang. Another rank whose device this is not gets a plain Error
/// of the same code.
class DeviceLost : public Error {
 public:
  DeviceLost(const std::string& where, const std::string& what, const std::string& hint)
      : Error(ExitCode::kDeviceLost, where, what, hint) {}
};

/// Throws what the user can act on in the place of `error`, where it is about the device: DeviceLost;
/// Error(kBadRecipe) for an operator without a deterministic implementation, for a GPU that LibTorch has no
/// kernels for, and for one that takes no process more. Else does nothing.
void throw_device_error(const std::exception& error);

/// What `work` returns, and throws with errors of the device named.
template <class Work>
auto naming_device_errors(Work&& work) {
  try {
    return work();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw_device_error(error);
    throw;
  }
}

/// What is still to be done when the device is lost.
///
/// Few stacks can be unwound then: freed memory may ask the device, whose answer is an exception out of a
/// destructor, which ends the process. So `leave_lost_device` calls what the living scopes have to do from
/// where the loss is met, and where a destructor met it first, so does the end of the process, from its
/// thread. Scopes end in the reverse order of their beginnings where one thread makes them.
class LostDeviceScope {
 public:
  /// Asks nothing of the device, and may end the process. @return the error, about which it may know more.
  using Leave = std::function<DeviceLost(const DeviceLost&)>;

  explicit LostDeviceScope(Leave leave);
  ~LostDeviceScope();
  LostDeviceScope(const LostDeviceScope&) = delete;
  LostDeviceScope& operator=(const LostDeviceScope&) = delete;

 private:
  friend DeviceLost leave_lost_device(const DeviceLost& error);
  Leave leave_;
};

/// Calls what every living scope has to do, once, the innermost first. @return the error as the last one told
/// it, to be thrown.
DeviceLost leave_lost_device(const DeviceLost& error);

}  // namespace autotrain
