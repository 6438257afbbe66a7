#pragma once

#include <pthread.h>

#include <cstddef>
#include <functional>

namespace autotrain {

/// A thread for our own light work, with a stack of two mebibytes. Resource limits (`ulimit -d`, `ulimit -v`)
/// count the whole stack of a thread, which is 8 MiB by default.
class SmallThread {
 public:
  SmallThread() = default;

  static constexpr size_t kStackBytes = size_t{2} << 20;

  /// @param work must not throw.
  /// @throws std::bad_alloc when its stack gets no memory, Error(kInputOutput) when the system starts no more
  /// threads.
  explicit SmallThread(std::function<void()> work);

  /// Waits for it.
  ~SmallThread() { join(); }
  SmallThread(SmallThread&& other) noexcept;
  SmallThread& operator=(SmallThread&& other) noexcept;

  /// Waits until the work is done, if there is any.
  void join();

 private:
  pthread_t thread_{};
  bool running_ = false;
};

/// Starts a thread that nobody waits for, with a stack of the usual size.
/// @param work must not throw. @throws as SmallThread does.
void start_detached_thread(std::function<void()> work);

}  // namespace autotrain
