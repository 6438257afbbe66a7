#pragma once

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

namespace autotrain {

/// Work of a device that was recorded once, and can be queued again as a whole: on a GPU a CUDA graph, whose
/// thousand kernels the host launches with one call.
class RecordedWork {
 public:
  virtual ~RecordedWork() = default;

  /// Queues the work: the same kernels with the same arguments at the same addresses, whatever these hold
  /// now. Random numbers are those that the device's generator is at. Does not wait.
  virtual void replay() = 0;
};

/// Why work was not recorded: "the model waits for the device: …".
class CannotRecord : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Records work of one device on one thread.
///
/// Memory that recorded work allocates is kept for it, and shared by all work of one recorder: what one left
/// behind is lost when another is replayed, unless it lies in tensors that are older than the recording. It
/// is given back with the last of them.
class WorkRecorder {
 public:
  virtual ~WorkRecorder() = default;

  /// Calls `work` once. What it asks of the device is recorded, not done: for that, `replay`. The same work
  /// must have been done before, so that libraries have loaded and compiled what it needs, and nothing that
  /// the host does on the way is done again: neither its decisions nor its numbers.
  /// @throws CannotRecord when it waits for the device or does what cannot be recorded;
  /// `c10::OutOfMemoryError` when memory is short. Nothing was done then, and the device can be used as
  /// before.
  virtual std::unique_ptr<RecordedWork> record(const std::function<void()>& work) = 0;
};

}  // namespace autotrain
