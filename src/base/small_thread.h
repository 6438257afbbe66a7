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
