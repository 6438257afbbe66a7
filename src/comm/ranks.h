#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "autotrain/error.h"
#include "autotrain/rank_group.h"
#include "comm/agreement.h"
#include "comm/exchange.h"
#include "comm/launch.h"
#include "comm/message.h"

namespace autotrain {

/// The ranks of a run, seen from one of them. They work in lock-step: all make the same calls in the same
/// order, except that one that fails shares its failure in the place of its next note, and nobody waits for
/// it in vain.
///
/// Use from one thread.
class Ranks {
 public:
  using Note = Message::Note;

  /// A single rank, for which every call does nothing and waits for nobody.
  Ranks();

  /// Meets the other ranks where `launch` says, to exchange notes.
  /// @param patience seconds after which ranks that have not come are given up.
  /// @throws Error(kInterrupted) naming them, or because a signal ended the waiting; Error(kUsage) when they
  /// were not started as the ranks of one run, or another process has the port.
  static std::unique_ptr<Ranks> open(const Launch& launch, double patience = kToCome);

  /// The ranks of a process group of the caller's own, which `connect` takes for tensors; ranks of one host
  /// share its cores and memory.
  /// @throws Error(kUsage) when another run of this process has the group now, or a launcher's variables say
  /// something else; Error(kInterrupted) naming the ranks that do not come.
  static std::unique_ptr<Ranks> over(const std::shared_ptr<const RankGroup>& group,
                                     const Environment& environment, double patience = kToCome);

  /// From now on tensors of this device can be exchanged: by gloo those of a CPU, by NCCL those of a GPU. All
  /// kinds of exchange are tried once, so that what they need is had.
  /// @throws Error(kInterrupted) when the ranks do not reach each other.
  void connect(c10::Device device);

  /// @param store with a prefix that is used for nothing else.
  /// @param exchange null: `connect` makes one.
  Ranks(c10::intrusive_ptr<c10d::Store> store, const Place& place, std::unique_ptr<Exchange> exchange,
        const std::string& address = "127.0.0.1");

  /// Waits until the others need nothing of this rank any more, unless one of them is lost: for a moment, or
  /// as long as they give signs of life where this rank serves their store.
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  const Place& place() const { return place_; }
  bool several() const { return place_.world > 1; }
  bool first() const { return place_.rank == 0; }

  /// Says what this rank does from now on. @param phase must stay valid: a literal.
  void enter(const char* phase);

  /// Everyone's note of this meeting, in the order of ranks.
  /// @param patience seconds after which a rank that gives signs of life but does not come is given up.
  /// @param look called now and then while others are waited for; the ranks are apart when it throws.
  /// @throws FailureElsewhere when another rank shared one; the Error with which another rank ended, with
  /// that rank's name; Error(kUsage) naming one that is done, and has left; Error(kInterrupted) naming the
  /// ranks that are lost or hang.
  std::vector<Note> meet(const Note& mine, double patience = kLongest,
                         const std::function<void()>& look = {});

  /// Sees that all ranks are to do the same, before rounds of which each rank must know what they are about.
  /// @param what "train", "plan".
  /// @throws Error(kUsage) naming a rank that is to do something else; as `meet`.
  void agree_on(const std::string& what);

  /// Rank 0's note. Those of the others are not looked at. @throws as `meet`.
  Note from_first(const Note& mine);

  /// Shares, in the place of this rank's next note, that memory ran out here, or that it failed in a way that
  /// all take alike. Does nothing with a FailureElsewhere, which everybody knows.
  void share(const std::exception& failure);

  /// Shares that this rank ends, and why; it waits for nobody. Does nothing when the ranks are apart already.
  void share_end(const Error& error) noexcept;

  /// Whether the ranks are apart because the first one is lost, as far as this one, another one, can tell: it
  /// may also be the store that is.
  bool first_is_lost() const { return agreement_ && apart_ && !first() && !agreement_->lives(0); }

  /// Tensors of all ranks, once connected. A call that a lost rank would never answer throws
  /// Error(kInterrupted) naming it.
  Exchange& exchange() { return *exchange_; }

  static constexpr double kToCome = 300;    ///< seconds: for processes to start, as in PyTorch's stores
  static constexpr double kLongest = 1800;  ///< seconds: for loading data, trials, evaluations

 private:
  class Watched;
  class Claim;
  void find_neighbours(double patience);
  std::string not_heard_of() const;
  void call_watched(std::function<void()> call);
  void fail_if_one_ended();
  [[noreturn]] void fail_as(int64_t rank, const Message& message);
  [[noreturn]] void fail_as_left(int64_t rank, const Message& message);

  Place place_;
  c10::intrusive_ptr<c10d::Store> store_;
  std::string address_;                     // where the others reach this rank
  std::unique_ptr<Agreement> agreement_;    // null: a single rank
  std::shared_ptr<Exchange> raw_exchange_;  // shared with a call that was given up
  std::unique_ptr<Exchange> exchange_;
  std::unique_ptr<AbandonableThread> calls_;
  std::shared_ptr<const RankGroup> group_;  // the caller's; null: `connect` makes one
  std::unique_ptr<Claim> claim_;            // to that group
  bool serves_ = false;                     // the store of all
  bool over_ = false;                       // a rank has ended, and all know or will
  bool apart_ = false;                      // a rank is lost, or the store does not answer
};

}  // namespace autotrain
