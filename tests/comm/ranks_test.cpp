#include "comm/ranks.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <new>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "base/interrupt.h"
#include "base/text.h"
#include "comm/meeting_place.h"
#include "comm/roll_call.h"
#include "device/failure.h"
#include "support/support.h"

namespace autotrain {
namespace {

using Note = Ranks::Note;

// Runs `work(ranks)` as each of `world` ranks that are threads.
template <class Work>
void as_ranks(int64_t world, Work work) {
  const c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::HashStore>();
  auto exchanges = make_thread_exchanges(world);
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      Ranks ranks(store, {rank, world, cat("host-", rank)}, std::move(exchanges[static_cast<size_t>(rank)]));
      work(ranks);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Ranks, ASingleOneMeetsItself) {
  Ranks alone;
  EXPECT_FALSE(alone.several());
  EXPECT_EQ(alone.meet("here"), std::vector<Note>{"here"});
  EXPECT_EQ(alone.from_first(7), 7);
  alone.share(std::bad_alloc());
  alone.share_end(Error(ExitCode::kBadData, "", ""));
}

TEST(Ranks, EveryoneHearsEveryoneAndTheFirst) {
  std::vector<int> right(3);
  as_ranks(3, [&](Ranks& ranks) {
    const int64_t rank = ranks.place().rank;
    bool good = ranks.meet(rank * rank) == std::vector<Note>{0, 1, 4};
    good = good && ranks.from_first(cat("from ", rank)) == "from 0";
    torch::Tensor tensor = torch::full({5}, static_cast<double>(rank + 1));
    ranks.exchange().copy_from_first(tensor);
    right[static_cast<size_t>(rank)] = good && tensor.equal(torch::ones({5}));
  });
  EXPECT_EQ(right, (std::vector{1, 1, 1}));
}

TEST(Ranks, WhereMemoryRunsOutOnOneAllTakeItAlikeAndGoOn) {
  std::vector<int> right(3);
  as_ranks(3, [&](Ranks& ranks) {
    const int64_t rank = ranks.place().rank;
    bool good = rank == 1;
    try {
      if (rank == 1) {
        ranks.share(std::bad_alloc());
      } else {
        ranks.meet("fine");
      }
    } catch (const FailureElsewhere& failure) {
      good = test::holds(failure.what(), "rank 1 on host-1") &&
             classify_failure(failure) == Failure::kOutOfMemory;
      ranks.share(failure);  // everybody knows already
    }
    good = good && ranks.meet(rank) == std::vector<Note>{0, 1, 2};
    right[static_cast<size_t>(rank)] = good;
  });
  EXPECT_EQ(right, (std::vector{1, 1, 1}));
}

TEST(Ranks, TheErrorThatEndsOneEndsAll) {
  std::vector<std::string> heard(3);
  as_ranks(3, [&](Ranks& ranks) {
    const int64_t rank = ranks.place().rank;
    if (rank == 2)
      return ranks.share_end(Error(ExitCode::kBadData, "train.csv", "is torn", "fetch it again"));
    const Error error = test::expect_error(ExitCode::kBadData, [&] { ranks.meet("fine"); });
    heard[static_cast<size_t>(rank)] = error.what();
  });
  for (const int64_t rank : {0, 1}) {
    EXPECT_TRUE(test::holds(heard[static_cast<size_t>(rank)], "rank 2 on host-2: train.csv"));
    EXPECT_TRUE(test::holds(heard[static_cast<size_t>(rank)], "fetch it again"));
  }
}

TEST(Ranks, ThatAreToDoSomethingElseAreNamed) {
  std::vector<std::string> heard(3);
  as_ranks(3, [&](Ranks& ranks) {
    const int64_t rank = ranks.place().rank;
    ranks.agree_on("train");
    heard[static_cast<size_t>(rank)] = test::expect_error(ExitCode::kUsage, [&] {
                                         ranks.agree_on(rank == 2 ? "plan" : "train with --resume");
                                       }).what();
  });
  for (const std::string& each : heard)
    EXPECT_TRUE(
        test::holds(each, "rank 2 on host-2: is to plan, and rank 0 on host-0 is to train with --resume"));
}

TEST(Ranks, OneThatHasLeftIsNamedByThoseWhoGoOn) {
  std::vector<std::string> heard(3);
  as_ranks(3, [&](Ranks& ranks) {
    const int64_t rank = ranks.place().rank;
    if (rank == 1) return;
    heard[static_cast<size_t>(rank)] =
        test::expect_error(ExitCode::kUsage, [&] { ranks.meet("goes on"); }).what();
  });
  for (const size_t rank : {size_t{0}, size_t{2}})
    EXPECT_TRUE(test::holds(heard[rank], "rank 1 on host-1: has done all that it was to do"));
}

// A rank of two that meet where this place is.
Launch launch_to(const MeetingPlace& meeting, int64_t rank) {
  Launch launch{.by = Launcher::kTorchrun, .place = {.rank = rank, .world = 2, .host = "b"}};
  launch.meeting_host = "127.0.0.1";
  launch.meeting_port = meeting.port();
  launch.agent_store = rank > 0;
  return launch;
}

// With a store that answers, where the other rank is waited for, and with one that does not yet.
TEST(Ranks, ASignalEndsTheWaitingForOthers) {
  constexpr double kLong = 100'000;
  request_interrupt(Interrupt::kStop);
  for (const bool answers : {true, false}) {
    MeetingPlace meeting;
    if (answers) meeting.serve();
    const Error error =
        test::expect_error(ExitCode::kInterrupted, [&] { Ranks::open(launch_to(meeting, 1), kLong); });
    EXPECT_TRUE(test::holds(error.what(), "a signal ended the waiting for ")) << answers;
    if (!answers) meeting.serve();  // what was left behind comes to an end
  }
  clear_interrupt();
}

TEST(Ranks, APortThatIsTakenIsNamed) {
  const MeetingPlace other;  // which has the port
  for (const int64_t local_world : {1, 2}) {
    Launch launch = launch_to(other, 0);
    launch.place.local_world = local_world;
    const Error error = test::expect_error(ExitCode::kUsage, [&] { Ranks::open(launch); });
    EXPECT_TRUE(test::holds(error.what(), cat("port ", other.port(), " (MASTER_PORT)"))) << local_world;
    EXPECT_TRUE(test::holds(error.what(), "is taken")) << local_world;
  }
}

TEST(MeetingPlace, ThatMayOpenNoMoreFilesSaysSo) {
  MeetingPlace meeting;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::dup(STDERR_FILENO);
  ::close(next);
  const rlimit none{.rlim_cur = static_cast<rlim_t>(next), .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const Error error = test::expect_error(ExitCode::kInputOutput, [&] { meeting.serve(); });
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(test::holds(error.what(), "raise the limit of open files")) << error.what();
}

TEST(RollCall, NamesRanksOfAnotherNumberOfRanks) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  RollCall first(store, {0, 2, "a"}, /*serves=*/true), second(store, {1, 4, "b"}, /*serves=*/false);
  first.answer();
  first.fail_if_refused();
  for (const auto& hears :
       {std::function([&] { second.answer(); }), std::function([&] { first.fail_if_refused(); })})
    EXPECT_TRUE(test::holds(test::expect_error(ExitCode::kUsage, hears).what(),
                            "rank 1 on b was started as one of 4 ranks, and rank 0 on a as one of 2"));
}

TEST(RollCall, NamesTwoThatAreTheSameRank) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  RollCall(store, {1, 3, "a"}, /*serves=*/false).answer();
  RollCall(store, {2, 3, "a"}, /*serves=*/false).answer();
  const Error error = test::expect_error(ExitCode::kUsage, [&] {
    RollCall(store, {1, 3, "b"}, /*serves=*/false).answer();
  });
  EXPECT_TRUE(test::holds(error.what(), "two processes were started as rank 1, on a and on b"));
}

TEST(RollCall, TakesARankThatIsStartedAgainInThePlaceOfOneThatDied) {
  const pid_t died = ::fork();
  if (died == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(died, nullptr, 0), died);
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const std::string line = cat("1 3 ", died, " a\n");
  store->append("come", {line.begin(), line.end()});
  RollCall(store, {1, 3, "a"}, /*serves=*/false).answer();
}

TEST(Ranks, ARankThatNeverComesIsNamed) {
  MeetingPlace meeting;
  meeting.serve();
  Launch launch{.by = Launcher::kTorchrun, .place = {.rank = 1, .world = 3, .host = "b"}};
  launch.meeting_host = "127.0.0.1";
  launch.meeting_port = meeting.port();
  launch.agent_store = true;
  const Error error = test::expect_error(ExitCode::kInterrupted, [&] { Ranks::open(launch, 0.1); });
  EXPECT_TRUE(test::holds(error.what(), "rank 0, never heard of")) << error.what();
  EXPECT_TRUE(test::holds(error.what(), "rank 2, never heard of")) << error.what();
  EXPECT_TRUE(test::holds(error.what(), "did all of them start")) << error.what();
}

}  // namespace
}  // namespace autotrain
