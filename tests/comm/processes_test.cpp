// Ranks as processes that meet at a store of this one and exchange tensors over gloo. Nothing here computes
// with LibTorch before the processes are started.
#include <ATen/Parallel.h>
#include <signal.h>

#include <fstream>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "base/child.h"
#include "base/clock.h"
#include "base/text.h"
#include "comm/agreement.h"
#include "comm/exact_sum.h"
#include "comm/group_exchange.h"
#include "comm/meeting_place.h"
#include "device/failure.h"
#include "support/lanes.h"
#include "support/support.h"

namespace autotrain {
namespace {

// The store of the meeting, for a rank in its own process.
c10::intrusive_ptr<c10d::Store> join(const MeetingPlace& meeting) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(meeting.port());
  options.isServer = false;
  options.waitWorkers = false;
  options.timeout = std::chrono::seconds(60);
  return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
}

constexpr int64_t kNumbers = 100'001;

// A rank runs windows of an agreement and a sum each, until there were `windows`, noting each in a
// file.
int run_rank(const MeetingPlace& meeting, const Place& place, int64_t windows,
             const std::filesystem::path& notes) {
  ::signal(SIGPIPE, SIG_IGN);  // a peer that died must be an error, not the end
  at::set_num_threads(1);
  const auto store = join(meeting);
  Agreement agreement(store, place, {.silence_seconds = 6});
  const auto exchange = make_gloo_exchange(store, place, {.seconds = 5});
  torch::Tensor flat = test::lane_numbers(kNumbers, place.rank);
  ExactSum sum(*exchange, place, flat.numel(), flat.options());
  try {
    for (int64_t window = 0; window < windows; ++window) {
      agreement.heartbeat().enter("agreement");
      agreement.exchange(cat("ok ", window), 60);
      agreement.heartbeat().enter("sum");
      flat = test::lane_numbers(kNumbers, place.rank);
      try {
        sum(flat);
      } catch (const std::exception& error) {
        agreement.fail_about("the sum of gradients failed: " + first_line(error));
      }
      std::ofstream(notes, std::ios::app) << window << '\n';
    }
  } catch (const Error& error) {
    std::ofstream(notes.string() + ".error") << error.what();
    ::_exit(static_cast<int>(error.code()));  // without destroying what may hang
  }
  std::ofstream(notes.string() + ".sum", std::ios::binary)
      .write(static_cast<const char*>(flat.const_data_ptr()), static_cast<std::streamsize>(flat.nbytes()));
  return 0;
}

// Errors go to the rank's log; the exit code is the error's.
std::unique_ptr<Child> start_rank(const MeetingPlace& meeting, const Place& place, int64_t windows,
                                  const test::TemporaryFolder& folder) {
  const auto notes = folder / cat("notes-", place.rank);
  return std::make_unique<Child>(
      [&meeting, place, windows, notes] { return run_rank(meeting, place, windows, notes); },
      folder / cat("log-", place.rank));
}

// What one rank comes to that adds all by itself, in a process of its own as the ranks are.
std::string sum_of_one(int64_t world, const test::TemporaryFolder& folder) {
  const auto path = folder / "alone";
  Child alone([&] {
    at::set_num_threads(1);
    LaneTree tree;
    for (int64_t rank = 0; rank < world; ++rank) tree.add(test::lane_numbers(kNumbers, rank));
    const torch::Tensor sum = tree.take();
    std::ofstream(path, std::ios::binary)
        .write(static_cast<const char*>(sum.const_data_ptr()), static_cast<std::streamsize>(sum.nbytes()));
    return 0;
  });
  EXPECT_EQ(alone.wait(), 0);
  return test::slurp(path);
}

TEST(RankProcesses, TwoAndFourComeToTheBitsOfOne) {
  for (const int64_t world : {2, 4}) {
    const test::TemporaryFolder folder;
    MeetingPlace meeting;
    std::vector<std::unique_ptr<Child>> ranks;
    for (int64_t rank = 0; rank < world; ++rank)
      ranks.push_back(start_rank(meeting, {rank, world, "here"}, 3, folder));
    meeting.serve();
    for (const auto& rank : ranks) EXPECT_EQ(rank->wait(), 0);
    const std::string wanted = sum_of_one(world, folder);
    ASSERT_EQ(wanted.size(), 400'004u);
    for (int64_t rank = 0; rank < world; ++rank)
      EXPECT_TRUE(test::slurp(folder / cat("notes-", rank, ".sum")) == wanted) << "rank " << rank;
  }
}

// Kills or stops one of three ranks in the middle; the others must end by themselves and name it.
void lose_a_rank(int signal) {
  const test::TemporaryFolder folder;
  MeetingPlace meeting;
  std::vector<std::unique_ptr<Child>> ranks;
  for (int64_t rank = 0; rank < 3; ++rank)
    ranks.push_back(start_rank(meeting, {rank, 3, cat("host-", rank)}, 1'000'000, folder));
  meeting.serve();
  test::wait_until([&] {
    return std::filesystem::exists(folder / "notes-1") && test::slurp(folder / "notes-1").size() > 40;
  });
  ranks[1]->send(signal);
  for (const size_t rank : {size_t{0}, size_t{2}}) {
    EXPECT_EQ(ranks[rank]->wait(), static_cast<int>(ExitCode::kInterrupted));
    const std::string said = test::slurp(folder / cat("notes-", rank, ".error"));
    EXPECT_TRUE(test::holds(said, "lost rank 1 on host-1")) << said;
  }
}

TEST(RankProcesses, AKilledRankIsNamedByTheOthers) {
  lose_a_rank(SIGKILL);
}

TEST(RankProcesses, AStoppedRankIsNamedByTheOthers) {
  lose_a_rank(SIGSTOP);
}

}  // namespace
}  // namespace autotrain
