#pragma once

#include <optional>

#include "autotrain/error.h"
#include "base/clock.h"

namespace autotrain {

/// Error(kInputOutput) for want of room on a disk, or in a quota.
class NoRoom : public Error {
 public:
  using Error::Error;
};

/// While it lives, writers of all threads wait for room on a full disk instead of failing at once, and say so
/// in the log. A stop that is asked for ends their waiting, and once one has waited in vain, nobody waits any
/// more.
class FullDiskScope {
 public:
  /// @param seconds that a writer waits; 0: nobody waits, as without a scope.
  explicit FullDiskScope(double seconds);
  ~FullDiskScope();
  FullDiskScope(const FullDiskScope&) = delete;
  FullDiskScope& operator=(const FullDiskScope&) = delete;

 private:
  double before_;
};

/// One writer's waiting.
class WaitForRoom {
 public:
  /// Waits a little. @return whether to try again; false: the failure is final.
  bool after(const NoRoom& failure);

  /// Ends the waiting, for what was tried has succeeded, and says so where it had begun.
  void end() const;

 private:
  std::optional<Stopwatch> since_;  // the first failure
  Stopwatch said_;                  // when the user was last told
};

/// Does `work`, and does it again from its start after each failure that is worth waiting for.
/// @throws NoRoom when the waiting is over; what else `work` throws.
template <class Work>
void waiting_for_room(Work work) {
  for (WaitForRoom wait;;) {
    try {
      work();
      return wait.end();
    } catch (const NoRoom& failure) {
      if (!wait.after(failure)) throw;
    }
  }
}

}  // namespace autotrain
