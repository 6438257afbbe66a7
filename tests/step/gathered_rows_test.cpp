#include "step/gathered_rows.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <new>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "base/text.h"
#include "device/failure.h"
#include "support/support.h"

namespace autotrain {
namespace {

// What each of `world` ranks, which are threads, heard.
std::vector<std::string> heard_by(int64_t world, const std::function<std::string(Ranks& ranks)>& work) {
  const c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::HashStore>();
  auto exchanges = make_thread_exchanges(world);
  std::vector<std::string> heard(static_cast<size_t>(world));
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < heard.size(); ++rank) {
    threads.emplace_back([&, rank] {
      const auto number = static_cast<int64_t>(rank);
      Ranks ranks(store, {number, world, cat("host-", rank)}, std::move(exchanges[rank]));
      heard[rank] = work(ranks);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return heard;
}

// Rows of two numbers each, which say whose they are and count from 0.
torch::Tensor rows_of(int64_t rank, int64_t count) {
  if (count == 0) return {};
  const torch::Tensor numbers = torch::arange(count).to(torch::kFloat32);
  return torch::stack({torch::full({count}, static_cast<double>(rank)), numbers}, 1);
}

std::string words_of(const GatheredRows& rows) {
  std::string words = cat("from ", rows.first, ':');
  for (int64_t i = 0; i < rows.all.size(0); ++i)
    words += cat(' ', rows.all[i][0].item<int64_t>(), '.', rows.all[i][1].item<int64_t>());
  return words;
}

std::string gathered(Ranks& ranks, const std::vector<int64_t>& counts) {
  const int64_t rank = ranks.place().rank;
  return words_of(gather_rows(ranks, rows_of(rank, counts[static_cast<size_t>(rank)]), torch::kCPU));
}

TEST(GatheredRows, AreAlikeOnAllRanksHoweverManyEachHas) {
  const std::string all = "0.0 0.1 2.0 2.1 2.2";
  EXPECT_EQ(heard_by(3,
                     [](Ranks& ranks) {
                       return gathered(ranks, {2, 0, 3});
                     }),
            (std::vector{"from 0: " + all, "from 2: " + all, "from 2: " + all}));
  EXPECT_EQ(heard_by(2,
                     [](Ranks& ranks) {
                       return gathered(ranks, {0, 1});
                     }),
            (std::vector<std::string>{"from 0: 1.0", "from 0: 1.0"}));
}

// Memory runs out on one: before it has rows to give, and then where it would take everybody's.
TEST(GatheredRows, ARankWithoutMemoryLeavesNobodyWaiting) {
  for (const bool with_rows : {false, true}) {
    const auto heard = heard_by(3, [&](Ranks& ranks) {
      std::string first;
      try {
        if (ranks.place().rank == 1 && with_rows) ranks.meet({{"rows", 1}, {"sizes", {2}}});
        if (ranks.place().rank == 1) throw std::bad_alloc();
        first = gathered(ranks, {1, 1, 1});
      } catch (const std::exception& failure) {
        ranks.share(failure);
        first = classify_failure(failure) == Failure::kOutOfMemory ? "no memory" : failure.what();
      }
      return first + ", then " + gathered(ranks, {1, 1, 1});
    });
    const std::string all = "0.0 1.0 2.0";
    EXPECT_EQ(heard, (std::vector{"no memory, then from 0: " + all, "no memory, then from 1: " + all,
                                  "no memory, then from 2: " + all}))
        << with_rows;
  }
}

TEST(GatheredRows, ARankThatStopsIsHeardAndTheNextMeetingIsEveryones) {
  const auto heard = heard_by(2, [](Ranks& ranks) {
    std::string first = "stops";
    try {
      if (ranks.place().rank == 0) {
        stop_in_place_of_rows(ranks, Ranks::kLongest);
      } else {
        first = gathered(ranks, {1, 1});
      }
    } catch (const StopElsewhere&) {
      first = "stop elsewhere";
    }
    const auto notes = ranks.meet(ranks.place().rank);
    return cat(first, ", then ", notes[0].get<int64_t>(), notes[1].get<int64_t>());
  });
  EXPECT_EQ(heard, (std::vector<std::string>{"stops, then 01", "stop elsewhere, then 01"}));
}

TEST(GatheredRows, OfOtherSizesAreRefusedOnAllRanks) {
  const auto heard = heard_by(3, [](Ranks& ranks) {
    const int64_t rank = ranks.place().rank;
    const torch::Tensor own = torch::zeros({2, rank == 2 ? 5 : 4});
    return std::string(
        test::expect_error(ExitCode::kBrokenContract, [&] { gather_rows(ranks, own, torch::kCPU); }).what());
  });
  for (const std::string& words : heard)
    EXPECT_TRUE(test::holds(words, "[4] on rank 0 and of [5] on rank 2")) << words;
}

// One that never comes is given up after the patience of the scope, not after that of a search.
TEST(GatheredRows, ARankThatDoesNotComeIsGivenUp) {
  std::atomic<bool> given_up = false;
  const auto heard = heard_by(2, [&](Ranks& ranks) -> std::string {
    ranks.meet("here");
    if (ranks.place().rank == 1) {
      test::wait_until([&] { return given_up.load(); });
      return "hangs";
    }
    const GatheringScope scope(/*patience=*/0.2);
    const Error error = test::expect_error(ExitCode::kInterrupted, [&] { gathered(ranks, {1, 1}); });
    given_up = true;
    return error.what();
  });
  EXPECT_TRUE(test::holds(heard[0], "rank 1")) << heard[0];
}

}  // namespace
}  // namespace autotrain
