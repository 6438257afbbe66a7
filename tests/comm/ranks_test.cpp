#include "comm/ranks.h"

#include <gtest/gtest.h>

#include <new>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "base/text.h"
#include "comm/meeting_place.h"
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
