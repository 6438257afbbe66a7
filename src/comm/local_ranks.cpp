#include "comm/local_ranks.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/child.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "comm/meeting_place.h"

namespace autotrain {
namespace {

// Seconds that the other ranks have to end by themselves once one has failed, and, of the first one, or all
// others if that is lost, to save what it has once it was told to.
constexpr double kToEnd = 15, kToSave = 600;

class LocalRanks {
 public:
  LocalRanks(int64_t ranks, const RankWork& work, const RankLogs& log_of) : log_of_(log_of) {
    for (auto& process : meeting_.start_ranks(ranks, work, log_of)) ranks_.push_back({std::move(process)});
  }

  RanksEnd wait() {
    while (left() > 0) {
      look();
      pass_signals_on();
      hurry();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    if (!failed_) return {};
    const int code = ranks_[*failed_].code;
    return {code < 0 ? ExitCode::kInterrupted : static_cast<ExitCode>(code), failure()};
  }

 private:
  struct Rank {
    std::unique_ptr<Child> process;
    bool ended = false;
    int code = 0;
  };

  int64_t left() const { return std::ranges::count(ranks_, false, &Rank::ended); }

  void look() {
    for (size_t i = 0; i < ranks_.size(); ++i) {
      Rank& rank = ranks_[i];
      if (rank.ended || !rank.process->ended_within(0)) continue;
      rank.ended = true;
      rank.code = rank.process->wait();
      if (rank.code == 0 || failed_) continue;
      failed_ = i;
      since_failure_.emplace();
    }
  }

  void pass_signals_on() {
    if (pending_interrupt() == Interrupt::kStop) {
      send(SIGTERM);
      told_ = true;
      clear_interrupt();
    }
    if (take_checkpoint_request() && !ranks_[0].ended) ranks_[0].process->send(SIGUSR1);
  }

  // Ranks that were left behind learn of it by themselves; one that hangs does not. Only the first one may
  // have something to write, or one of the others if it is lost, which takes as long as it takes.
  void hurry() {
    if (!since_failure_ || since_failure_->seconds() < kToEnd) return;
    const bool too_long = since_failure_->seconds() > kToSave;
    const bool tell = !std::exchange(told_, true);
    const bool first_is_lost = ranks_[0].ended ? ranks_[0].code < 0 : ranks_[0].process->stopped();
    for (size_t i = 0; i < ranks_.size(); ++i) {
      if (ranks_[i].ended) continue;
      const Child& rank = *ranks_[i].process;
      const bool may_write = i == 0 || first_is_lost;
      if (!may_write || rank.stopped() || too_long) {
        rank.send(SIGKILL);
      } else if (tell) {
        rank.send(SIGTERM);
      }
    }
  }

  void send(int signal) const {
    for (const Rank& rank : ranks_) {
      if (!rank.ended) rank.process->send(signal);
    }
  }

  std::string failure() const {
    const Rank& rank = ranks_[*failed_];
    const bool all_alike = std::ranges::all_of(ranks_, [&](const Rank& r) { return r.code == rank.code; });
    if (rank.code > 0 && (*failed_ == 0 || all_alike)) return "";  // the first rank has said so itself
    const std::string how = cat("rank ", *failed_, ' ', ended_how(rank.code), ", before the others\n");
    if (*failed_ > 0) return how + words_of(*failed_);
    std::string others;  // what the first of them knows
    for (size_t i = 1; i < ranks_.size() && others.empty(); ++i) others = words_of(i);
    return how + others;
  }

  std::string words_of(size_t rank) const {
    const std::string said = read_file(log_of_(static_cast<int64_t>(rank)));
    return said.empty() ? "" : cat("rank ", rank, " said:\n", said);
  }

  const RankLogs& log_of_;
  MeetingPlace meeting_;
  std::vector<Rank> ranks_;
  std::optional<size_t> failed_;  // the rank that was the first to
  std::optional<Stopwatch> since_failure_;
  bool told_ = false;  // the ranks, to stop: a second time would end them at once
};

}  // namespace

RanksEnd run_ranks(int64_t ranks, const RankWork& work, const RankLogs& log_of) {
  return LocalRanks(ranks, work, log_of).wait();
}

}  // namespace autotrain
