#include "comm/agreement.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "base/clock.h"
#include "base/text.h"
#include "support/support.h"

namespace autotrain {
namespace {

using Store = c10::intrusive_ptr<c10d::Store>;

// Runs `work(agreement)` as each of `world` ranks that are threads.
template <class Work>
void as_ranks(const Store& store, int64_t world, Work work) {
  std::vector<std::thread> ranks;
  for (int64_t rank = 0; rank < world; ++rank) {
    ranks.emplace_back([&, rank] {
      Agreement agreement(store, {rank, world, cat("host-", rank)});
      work(agreement);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST(Agreement, EveryoneHearsEveryoneInOrderOfRank) {
  const Store store = c10::make_intrusive<c10d::HashStore>();
  constexpr int64_t kWorld = 4, kRounds = 200;
  std::atomic<int64_t> right = 0;
  as_ranks(store, kWorld, [&](Agreement& agreement) {
    for (int64_t round = 0; round < kRounds; ++round) {
      std::vector<std::string> wanted;
      for (int64_t rank = 0; rank < kWorld; ++rank) wanted.push_back(cat("rank ", rank, " in ", round));
      const std::string mine = wanted[static_cast<size_t>(agreement.place().rank)];
      right += agreement.exchange(mine, 60) == wanted;
    }
  });
  EXPECT_EQ(right, kWorld * kRounds);
  // Two rounds, a heartbeat each and who has begun: nothing piles up.
  EXPECT_LE(store->getNumKeys(), 2 * 3 + kWorld + 1);
}

TEST(Agreement, ARankThatIsAliveAndDoesNotComeIsSaidToHang) {
  const Store store = c10::make_intrusive<c10d::HashStore>();
  std::atomic<bool> over = false;
  std::string said;
  as_ranks(store, 2, [&](Agreement& agreement) {
    if (agreement.place().rank == 1) return test::wait_until([&] { return over.load(); });
    test::wait_until([&] { return agreement.heartbeat().silent(-1).front().heard; });
    said = test::expect_error(ExitCode::kInterrupted, [&] { agreement.exchange("here", 1); }).what();
    over = true;
  });
  EXPECT_TRUE(test::holds(said, "rank 1, which is alive and hangs"));
}

TEST(Agreement, ARankThatFallsSilentIsNamedWithItsHostAndPhase) {
  const Store store = c10::make_intrusive<c10d::HashStore>();
  std::atomic<bool> begun = false;
  std::string said;
  std::thread lost([&] {
    Agreement agreement(store, {1, 2, "host-b"});
    agreement.heartbeat().enter("backward");
    agreement.exchange("here", 60);
    test::wait_until([&] { return begun.load(); });
  });  // and no more
  Agreement agreement(store, {0, 2, "host-a"}, {.silence_seconds = 5});
  agreement.exchange("here", 60);
  test::wait_until([&] { return agreement.heartbeat().silent(-1).front().phase == "backward"; });
  begun = true;
  lost.join();
  said = test::expect_error(ExitCode::kInterrupted, [&] { agreement.exchange("here", 600); }).what();
  EXPECT_TRUE(test::holds(said, "lost rank 1 on host-b"));
  EXPECT_TRUE(test::holds(said, "backward"));
}

// A store whose rank gives no beat, since the heartbeat gets no connection.
class NoSecondConnection final : public c10d::PrefixStore {
 public:
  using c10d::PrefixStore::PrefixStore;
  c10::intrusive_ptr<c10d::Store> clone() override { throw std::runtime_error("no more connections"); }
};

TEST(Agreement, ARankThatIsLostBeforeItsFirstSignOfLifeIsNamedOnceItHasCome) {
  const Store store = c10::make_intrusive<c10d::HashStore>();
  Agreement agreement(c10::make_intrusive<c10d::PrefixStore>("notes", store), {0, 2, "host-a"},
                      {.silence_seconds = 1});
  Agreement(c10::make_intrusive<NoSecondConnection>("notes", store), {1, 2, "host-b"}).post("here");
  agreement.exchange("here", 60);
  const Error error = test::expect_error(ExitCode::kInterrupted, [&] { agreement.exchange("there", 600); });
  EXPECT_TRUE(test::holds(error.what(), "lost rank 1, never heard of"));
}

TEST(Agreement, ARankThatHasNotBegunIsWaitedForAndThenSaidNeverToHaveCome) {
  const Store store = c10::make_intrusive<c10d::HashStore>();
  Agreement agreement(store, {0, 2, "host-a"}, {.silence_seconds = 1});
  const Stopwatch watch;
  const Error error = test::expect_error(ExitCode::kInterrupted, [&] { agreement.exchange("here", 6); });
  EXPECT_GE(watch.seconds(), 6) << "it was silent for longer than a second, but may have been loading";
  EXPECT_TRUE(test::holds(error.what(), "rank 1, never heard of"));
}

TEST(AbandonableThread, GivesUpACallThatDoesNotReturn) {
  const auto release = std::make_shared<std::atomic<bool>>(false);
  AbandonableThread thread;
  EXPECT_TRUE(thread.run(60, [] {}));
  EXPECT_THROW(thread.run(60, [] { throw std::out_of_range("no"); }), std::out_of_range);
  EXPECT_FALSE(thread.run(0.05, [release] { test::wait_until([&] { return release->load(); }); }));
  EXPECT_TRUE(thread.abandoned());
  EXPECT_FALSE(thread.run(60, [] {})) << "nothing more is tried";
  *release = true;
}

}  // namespace
}  // namespace autotrain
