#include "comm/heartbeat.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "base/clock.h"
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

}  // namespace
}  // namespace autotrain
