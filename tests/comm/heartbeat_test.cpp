#include "comm/heartbeat.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <memory>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <vector>

#include "base/text.h"
#include "support/support.h"

namespace autotrain {
namespace {

// A store to which another connection comes only when it is let.
class SlowToConnect final : public c10d::PrefixStore {
 public:
  explicit SlowToConnect(std::shared_future<void> let)
      : PrefixStore("", c10::make_intrusive<c10d::HashStore>()), let_(std::move(let)) {}

  c10::intrusive_ptr<c10d::Store> clone() override {
    let_.wait();
    return c10::make_intrusive<c10d::HashStore>();
  }

 private:
  std::shared_future<void> let_;
};

// Resolvers that do not answer keep a connection waiting for longer than a store may be silent.
TEST(Heartbeat, AConnectionThatTakesItsTimeIsNoStoreThatIsSilent) {
  constexpr double kEvery = 0.01, kLate = 0.01;
  std::promise<void> let;
  const Heartbeat heartbeat(c10::make_intrusive<SlowToConnect>(let.get_future().share()),
                            {.rank = 0, .world = 2, .host = "a"}, kEvery, kLate);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_TRUE(heartbeat.store_answers());
  let.set_value();
}

// The ranks of a large run, of which only some read what all give.
class LargeRun {
 public:
  LargeRun() {
    const auto store = c10::make_intrusive<c10d::HashStore>();
    for (int64_t rank = 0; rank < kWorld; ++rank) {
      beats_.push_back(std::make_unique<Heartbeat>(
          store, Place{.rank = rank, .world = kWorld, .host = cat("host-", rank)}, kEvery));
      beats_.back()->enter("forward");
    }
    for (const auto& beat : beats_) {
      test::wait_until([&] {
        const std::vector<SilentRank> all = beat->silent(-1);
        return std::ssize(all) == kWorld - 1 && std::ranges::all_of(all, &SilentRank::heard);
      });
    }
  }

  void lose(const std::vector<int64_t>& ranks) {
    for (const int64_t rank : ranks) beats_[static_cast<size_t>(rank)].reset();
  }

  // Waits until a rank takes these for lost, and nobody else.
  void wait_until_named(int64_t by, const std::vector<int64_t>& ranks) const {
    test::wait_until([&] {
      std::vector<int64_t> silent;
      for (const SilentRank& each : beats_[static_cast<size_t>(by)]->silent(kSilence))
        silent.push_back(each.rank);
      std::ranges::sort(silent);
      return silent == ranks;
    });
  }

 private:
  static constexpr int64_t kWorld = 48;
  static constexpr double kEvery = 0.05, kSilence = 1;

  std::vector<std::unique_ptr<Heartbeat>> beats_;
};

TEST(Heartbeat, InALargeRunEveryoneLearnsWhoIsLost) {
  LargeRun run;
  run.lose({5});
  for (const int64_t by : {0, 7, 16, 47}) run.wait_until_named(by, {5});
  run.lose({0, 16});  // two of the three who report
  for (const int64_t by : {7, 32, 47}) run.wait_until_named(by, {0, 5, 16});
}

// Of those who gave signs until the last report nobody knows whether they still do.
TEST(Heartbeat, WhenNobodyReportsAnyMoreOnlyThoseWhoDidAreTakenForLost) {
  LargeRun run;
  run.lose({0, 16, 32});
  for (const int64_t by : {7, 47}) run.wait_until_named(by, {0, 16, 32});
}

}  // namespace
}  // namespace autotrain
