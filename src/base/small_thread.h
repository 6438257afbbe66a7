#pragma once

#include <pthread.h>

#include <functional>

namespace autotrain {

/// A thread for our own light work, with a stack of a mebibyte. Resource limits (`ulimit -d`, `ulimit -v`)
/// count the whole stack of a thread, which is 8 MiB by default.
class SmallThread {
 public:
  SmallThread() = default;

  /// @param work must not throw. @throws std::system_error when there can be no thread.
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

}  // namespace autotrain
