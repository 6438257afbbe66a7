#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "comm/abandonable_thread.h"
#include "comm/heartbeat.h"
#include "comm/place.h"

namespace autotrain {

/// Short messages that all ranks exchange, round after round, over the keys of a store.
///
/// No rank can leave another waiting: whoever is missing is named, and every call ends within its time and
/// the few seconds that the store has to answer.
class Agreement {
 public:
  struct Options {
    double silence_seconds = 8;  ///< without a sign, after which a rank counts as lost
  };

  /// @param store with a prefix that no earlier agreement has used, not even before a restart
  /// (c10d::PrefixStore): the last rounds stay in it. Whoever serves it must stay until all ranks have left.
  Agreement(c10::intrusive_ptr<c10d::Store> store, const Place& place, const Options& options);
  Agreement(c10::intrusive_ptr<c10d::Store> store, const Place& place)
      : Agreement(std::move(store), place, Options{}) {}

  /// Everyone's message of this round, in the order of ranks.
  /// @param seconds after which ranks that have not come are given up: those that give signs of life as
  /// hanging.
  /// @param look called now and then while others are waited for, which ends when this throws.
  /// @throws Error(kInterrupted) naming the ranks that are lost, hang or never began, or the store.
  std::vector<std::string> exchange(const std::string& mine, double seconds,
                                    const std::function<void()>& look = {});

  /// Gives this round's message and does not wait for the others': their next round is this one's too.
  void post(const std::string& mine);

  /// The messages of this round that are there already, by rank. Waits for nobody.
  std::map<int64_t, std::string> posted();

  /// @throws Error(kInterrupted) naming the ranks that are lost, or the store.
  void fail_if_lost(const std::string& about = "");

  /// Names what another channel's failure was about, once the heartbeats tell: within `silence_seconds` and a
  /// few more.
  [[noreturn]] void fail_about(const std::string& what);

  /// Whether this rank is known to be alive and was not given up. Where that is not clear yet it waits for
  /// some seconds.
  bool lives(int64_t rank) const;

  Heartbeat& heartbeat() { return heartbeat_; }
  const Place& place() const { return place_; }

 private:
  [[noreturn]] void fail(const std::string& what) const;
  bool store_is_lost() const;
  void fail_if_late(int64_t round, double seconds);
  std::function<void()> giving(const std::string& mine);
  std::map<int64_t, std::string> there(int64_t round);
  void call_store(std::function<void()> call);

  c10::intrusive_ptr<c10d::Store> store_;
  Place place_;
  Options options_;
  Heartbeat heartbeat_;
  AbandonableThread calls_;
  std::set<int64_t> given_up_;  // although they give signs of life
  int64_t round_ = 0;
  int64_t completed_ = -1;  // the last round whose messages this rank has
  int64_t oldest_ = 0;      // the first round that is still in the store: rank 0 drops it
};

}  // namespace autotrain
