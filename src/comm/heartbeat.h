#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "comm/place.h"

namespace autotrain {

/// A rank that has not been heard of for a while.
struct SilentRank {
  int64_t rank = 0;
  bool heard = false;  ///< ever; else it may not have begun yet
  std::string host = {};
  std::string phase = {};  ///< what it said it was doing
  double seconds = 0;      ///< since its last sign, or since we listen or all have come
};

/// "rank 1 on b, silent for 4 s, last in its phase "forward"".
std::string describe(const SilentRank& silent);

/// Tells the other ranks every second that this one is alive and what it does, and hears the same of them,
/// over a connection and in a thread of its own: whatever blocks the run does not stop it.
class Heartbeat {
 public:
  /// @param store cloned in the thread, since a frozen one does not answer. @param every seconds between
  /// beats; @param late seconds without an answer, beyond those, after which the store counts as silent.
  Heartbeat(const c10::intrusive_ptr<c10d::Store>& store, const Place& place, double every = 1,
            double late = 8);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  /// Says what this rank does from now on. @param phase must stay valid: a literal.
  void enter(const char* phase);

  /// Everyone was here a moment ago, known otherwise: the silence of those never heard of begins now.
  void all_have_come();

  /// The ranks that were last heard of more than so many seconds ago, longest first.
  std::vector<SilentRank> silent(double seconds) const;

  /// Whether the store answers. When it has failed once, this rank gives no more signs.
  bool store_answers() const;

 private:
  struct Shared;
  static void beat(const std::shared_ptr<Shared>& shared);

  std::shared_ptr<Shared> shared_;  // with the thread, which may outlive this object when the store hangs
};

}  // namespace autotrain
