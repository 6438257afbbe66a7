#include "data/worker_tuner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace autotrain {
namespace {

// A step that takes 0.1 seconds for 64 samples, and threads that each take `load_seconds` for a batch; with
// more threads than cores everything is slower. The threads that are left in the end.
int64_t tuned(double load_seconds, int64_t most, int64_t cores = 64, int64_t first = 1) {
  WorkerTuner tuner(first, most);
  Random noise(3);
  for (int update = 0; update < 1000; ++update) {
    const auto workers = static_cast<double>(tuner.workers());
    const double crowd = std::pow(std::max(1.0, (workers + 1) / static_cast<double>(cores)), 2);
    const double step = 0.1 * crowd, data = load_seconds * crowd / workers;
    const double seconds = std::max(step, data) * (1 + 0.01 * noise.uniform());
    tuner.after_update(64, seconds, std::max(0.0, data - step));
  }
  return tuner.workers();
}

TEST(WorkerTuner, AddsThreadsUntilTheStepWaitsNoMore) {
  EXPECT_EQ(tuned(0.05, 8), 1);
  EXPECT_EQ(tuned(0.15, 8), 2);
  EXPECT_EQ(tuned(0.35, 8), 4);
  EXPECT_EQ(tuned(5.0, 8), 8);
}

TEST(WorkerTuner, TakesBackAThreadThatDoesNotPay) {
  EXPECT_EQ(tuned(5.0, 8, /*cores=*/4), 3);
}

TEST(WorkerTuner, LeavesATypedNumberAlone) {
  EXPECT_EQ(tuned(5.0, 3, 64, 3), 3);
}

}  // namespace
}  // namespace autotrain
