#include "base/child.h"

#include <ATen/Parallel.h>
#include <signal.h>
#include <sys/wait.h>
#include <torch/types.h>

#include "support/support.h"

namespace autotrain {
namespace {

double sum_of_many() {
  constexpr int64_t kManyThreads = 1 << 22;  // elements: enough for all threads to take part
  return torch::ones({kManyThreads}).sum().item<double>();
}

TEST(Child, ComputesThoughThisProcessHasComputedWithManyThreads) {
  const int threads = at::get_num_threads();
  at::set_num_threads(4);
  const double expected = sum_of_many();
  {
    Child child([&] { return sum_of_many() == expected ? 0 : 1; });
    ASSERT_TRUE(child.ended_within(300)) << "it waits for threads that it does not have";
    EXPECT_EQ(child.wait(), 0);
  }
  EXPECT_EQ(sum_of_many(), expected) << "this one goes on with threads of its own";
  at::set_num_threads(threads);
}

// Its end would never be told, and whoever waits for it would wait for ever.
TEST(Child, IsNotStartedWhereSignalsOfEndsAreIgnored) {
  const auto before = ::signal(SIGCHLD, SIG_IGN);
  const Error error = test::expect_error(ExitCode::kUsage, [] { Child([] { return 0; }); });
  ::signal(SIGCHLD, before);
  EXPECT_EQ(error.where(), "SIGCHLD");
}

TEST(Child, HasEndedWhenSomebodyElseTookItsResult) {
  Child child([] { return 0; });
  ::waitpid(-1, nullptr, 0);
  EXPECT_TRUE(child.ended_within(300));
  EXPECT_EQ(child.wait(), static_cast<int>(ExitCode::kInternal)) << "nobody knows how";
}

}  // namespace
}  // namespace autotrain
