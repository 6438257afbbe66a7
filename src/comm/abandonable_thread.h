#pragma once

#include <functional>
#include <memory>

namespace autotrain {

/// A thread for calls that may never return: calls of a store whose server is frozen, or whose link is cut,
/// outlast every time-out that they are given.
///
/// When a call is given up, the thread stays behind with what the call holds, and every later call is refused
/// at once. The process should then save what it has and end without waiting for it.
class AbandonableThread {
 public:
  AbandonableThread();

  /// Does not wait: the thread ends by itself, unless it was given up.
  ~AbandonableThread();
  AbandonableThread(const AbandonableThread&) = delete;
  AbandonableThread& operator=(const AbandonableThread&) = delete;

  /// Makes the call there. It must hold by value whatever it uses. @return false: it was given up, now or
  /// before. Rethrows what the call threw.
  /// @param look called now and then while the call lasts; it is given up when this throws.
  bool run(double seconds, std::function<void()> call, const std::function<void()>& look = {});

  bool abandoned() const { return abandoned_; }

 private:
  struct Shared;
  static void work(const std::shared_ptr<Shared>& shared);

  std::shared_ptr<Shared> shared_;
  bool abandoned_ = false;
};

}  // namespace autotrain
