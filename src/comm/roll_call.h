#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <functional>
#include <string>

#include "autotrain/error.h"
#include "comm/abandonable_thread.h"
#include "comm/place.h"

namespace autotrain {

/// Who has come to the store where ranks meet, and as which of how many. Ranks that were not started as those
/// of one run could not even count each other's messages, so each one answers here before it gives any.
class RollCall {
 public:
  /// @param store with a prefix that is used for nothing else. @param serves whether this rank serves it: it
  /// then stays for some seconds, or until all who have come know, before it refuses.
  RollCall(c10::intrusive_ptr<c10d::Store> store, const Place& place, bool serves);

  /// Adds this rank. @param look called now and then while the store does not answer; may throw.
  /// @throws Error(kUsage) naming one that was started as one of another number of ranks, or
  /// as this same rank; std::runtime_error when the store does not answer.
  void answer(const std::function<void()>& look = {});

  /// Whether another rank has found that they do not belong together: to be asked while they are waited for.
  /// @throws as `answer`.
  void fail_if_refused();

 private:
  [[noreturn]] void refuse(const std::string& problem);
  bool all_know();
  void call_store(std::function<void()> call, const std::function<void()>& look = {});

  c10::intrusive_ptr<c10d::Store> store_;
  Place place_;
  bool serves_;
  AbandonableThread calls_;
};

}  // namespace autotrain
