#include "cli/local_ranks.h"

#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>

#include "autotrain/error.h"
#include "base/child.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "comm/launch.h"
#include "comm/meeting_place.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

constexpr int64_t kMostLocalRanks = 1024;

// Seconds that the other ranks have to end by themselves once one has failed, and, of the first one, to save
// what it has once it was told to.
constexpr double kToEnd = 15, kToSave = 600;

std::vector<std::string> own_command_line() {
  std::vector<std::string> words = split(read_file("/proc/self/cmdline"), '\0');
  if (!words.empty() && words.back().empty()) words.pop_back();
  return words;
}

// Becomes this program again.
int start_again(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execv("/proc/self/exe", arguments.data());
  return static_cast<int>(ExitCode::kInternal);
}

std::string ended_how(int code) {
  return code < 0 ? cat("was killed by signal ", -code, " (", ::strsignal(-code), ")")
                  : cat("ended with code ", code);
}

// The ranks of one run as processes of this machine.
class LocalRanks {
 public:
  explicit LocalRanks(int64_t ranks) {
    const std::vector<std::string> words = own_command_line();
    for (auto& process : meeting_.start_ranks(
             ranks, [&](int64_t) { return start_again(words); }, [&](int64_t rank) { return log_of(rank); }))
      ranks_.push_back({std::move(process)});
  }

  ~LocalRanks() {
    std::error_code ignored;
    ranks_.clear();
    fs::remove_all(logs_, ignored);
  }

  ExitCode wait() {
    while (left() > 0) {
      look();
      pass_signals_on();
      hurry();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    if (!failed_) return ExitCode::kDone;
    tell();
    return ranks_[*failed_].code < 0 ? ExitCode::kInterrupted : static_cast<ExitCode>(ranks_[*failed_].code);
  }

 private:
  struct Rank {
    std::unique_ptr<Child> process;
    bool ended = false;
    int code = 0;
  };

  // The first rank has the terminal.
  fs::path log_of(int64_t rank) {
    if (rank == 0) return {};
    if (logs_.empty()) logs_ = make_temporary_folder("autotrain-ranks");
    return logs_ / cat("rank-", rank, ".log");
  }

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
  // have something to write, which takes as long as it takes.
  void hurry() {
    if (!since_failure_ || since_failure_->seconds() < kToEnd) return;
    for (size_t i = 1; i < ranks_.size(); ++i) {
      if (!ranks_[i].ended) ranks_[i].process->send(SIGKILL);
    }
    if (ranks_[0].ended) return;
    const Child& first = *ranks_[0].process;
    if (first.stopped() || since_failure_->seconds() > kToSave) return first.send(SIGKILL);
    if (!std::exchange(told_, true)) first.send(SIGTERM);
  }

  void send(int signal) const {
    for (const Rank& rank : ranks_) {
      if (!rank.ended) rank.process->send(signal);
    }
  }

  void tell() const {
    const Rank& rank = ranks_[*failed_];
    const bool all_alike = std::ranges::all_of(ranks_, [&](const Rank& r) { return r.code == rank.code; });
    if (rank.code > 0 && (*failed_ == 0 || all_alike)) return;  // the first rank has said so itself
    std::fprintf(stderr, "rank %zu %s, before the others\n", *failed_, ended_how(rank.code).c_str());
    if (*failed_ == 0) return;
    const std::string said = read_file(logs_ / cat("rank-", *failed_, ".log"));
    if (!said.empty()) std::fprintf(stderr, "it said:\n%s", said.c_str());
  }

  MeetingPlace meeting_;
  fs::path logs_;
  std::vector<Rank> ranks_;
  std::optional<size_t> failed_;  // the rank that was the first to
  std::optional<Stopwatch> since_failure_;
  bool told_ = false;  // the ranks, to stop: a second time would end them at once
};

}  // namespace

void RanksOption::declare(CLI::App& app) {
  app.add_option("--ranks", ranks, "Processes of this machine that make the run together")
      ->check(CLI::Range(int64_t{1}, kMostLocalRanks));
}

bool RanksOption::starts_them() const {
  const Launch launch = detect_launch(process_environment());
  if (launch.place.world == 1) return ranks > 1;
  if (ranks == 1 || ranks == launch.place.world) return false;
  throw Error(ExitCode::kUsage, "--ranks",
              cat(ranks, " are asked for, and ", to_string(launch.by), " started ", launch.place.world),
              "leave --ranks out where a launcher starts the ranks");
}

ExitCode run_local_ranks(int64_t ranks) {
  install_signal_handlers();
  return LocalRanks(ranks).wait();
}

RankLog::RankLog(int64_t rank, const PrintOptions& options)
    : rank_(rank), terminal_level_(log::Level::kWarning) {
  const log::Level level = options.verbose ? log::Level::kDebug : log::Level::kInfo;
  log::set_sink([this](const log::Record& record) { write(record); }, level);
}

RankLog::~RankLog() {
  log::set_sink(log::terminal_sink(), log::Level::kWarning);
}

void RankLog::on_folder(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return;  // another host's
  fs::create_directories(folder / "ranks", error);
  file_.open(folder / "ranks" / cat("rank-", rank_, ".log"), std::ios::app);
}

void RankLog::write(const log::Record& record) {
  if (file_.is_open()) file_ << '[' << record.room << "] " << record.text << std::endl;
  if (record.level >= terminal_level_)
    std::fprintf(stderr, "rank %lld: [%s] %s\n", static_cast<long long>(rank_),
                 std::string(record.room).c_str(), std::string(record.text).c_str());
}

}  // namespace autotrain
