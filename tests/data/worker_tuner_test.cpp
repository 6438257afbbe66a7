#include "data/worker_tuner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/random.h"
#include "data/loading_rates.h"

namespace autotrain {
namespace {

constexpr int64_t kBatch = 64;
constexpr double kPass = 0.1;  // seconds of an update that has its data

// A machine as a run sees it: what a thread takes for a batch and the step for an update while so many load.
struct Machine {
  std::function<double(double threads)> load;
  std::function<double(double threads)> step = [](double) { return kPass; };

  double data(int64_t threads) const {
    const auto t = static_cast<double>(threads);
    return load(t) / t;
  }
  double seconds(int64_t threads) const {
    return std::max(step(static_cast<double>(threads)), data(threads));
  }
  double waiting(int64_t threads) const { return 1 - step(static_cast<double>(threads)) / seconds(threads); }
  double best(int64_t most) const {
    double least = seconds(1);
    for (int64_t threads = 2; threads <= most; ++threads) least = std::min(least, seconds(threads));
    return least;
  }
};

void run(WorkerTuner& tuner, const Machine& machine, int updates) {
  Random noise(3);
  for (int update = 0; update < updates; ++update) {
    const int64_t threads = tuner.workers();
    const double uneven = 1 + 0.01 * noise.uniform();
    tuner.after_update({.samples = kBatch,
                        .seconds = machine.seconds(threads) * uneven,
                        .wait_seconds = machine.waiting(threads) * machine.seconds(threads) * uneven,
                        .load_seconds_per_sample = machine.load(static_cast<double>(threads)) / kBatch});
  }
}

int64_t tuned(const Machine& machine, int64_t most, int updates = 1000, int64_t first = 1) {
  WorkerTuner tuner(first, 1, most);
  run(tuner, machine, updates);
  return tuner.workers();
}

// A decoder, or a disk: a thread takes so many updates' time for a batch.
Machine taking(double updates) {
  return {.load = [=](double) { return updates * kPass; }};
}

TEST(WorkerTuner, AfterTenUpdatesTheStepHardlyWaitsWhereverThreadsCanKeepUp) {
  for (const double updates : {0.1, 0.5, 0.9, 1.5, 3.5, 7.0, 11.0, 13.5}) {
    for (const int64_t first : {1, 2, 5}) {
      const Machine machine = taking(updates);
      EXPECT_LE(machine.waiting(tuned(machine, 16, 10, first)), 0.05) << updates << " from " << first;
    }
  }
}

TEST(WorkerTuner, TakesNoThreadThatNothingWaitsFor) {
  EXPECT_EQ(tuned(taking(0.5), 8), 1);
  EXPECT_EQ(tuned(taking(0.97), 8), 1);
}

TEST(WorkerTuner, TakesAllThatThereAreWhereTheyCannotKeepUp) {
  EXPECT_EQ(tuned(taking(50), 8), 8);
  EXPECT_EQ(tuned(taking(50), 8, 1000, 8), 8);
}

// Memory, or a disk, gives no more than four threads can take.
TEST(WorkerTuner, GivesUpThreadsThatSlowEachOtherDown) {
  for (const double updates : {5.0, 10.0, 30.0}) {
    const Machine machine{
        .load = [=](double threads) { return updates * kPass * std::max(1.0, threads / 4); }};
    const int64_t threads = tuned(machine, 16);
    EXPECT_GE(threads, 4) << updates;
    EXPECT_LE(threads, 5) << updates;
    EXPECT_LE(machine.seconds(tuned(machine, 16, 100)), 1.05 * machine.best(16)) << updates;
  }
}

// The step computes on all four cores: loading takes its share of them, and more threads than cores slow down
// both.
TEST(WorkerTuner, FindsTheBestNumberWhereLoadingTakesTheStepsCores) {
  for (const double updates : {0.3, 1.2, 2.0, 5.0, 50.0}) {
    const auto crowd = [](double threads) { return std::pow(std::max(1.0, (threads + 1) / 4), 2); };
    const Machine machine{
        .load = [=](double threads) { return updates * kPass * crowd(threads); },
        .step =
            [=](double threads) { return kPass * crowd(threads) * (1 + std::min(threads, updates) / 4); }};
    for (const int64_t first : {1, 2}) {
      const int64_t threads = tuned(machine, 8, 1000, first);
      EXPECT_LE(machine.seconds(threads), 1.05 * machine.best(8)) << updates << ": " << threads;
    }
  }
}

TEST(WorkerTuner, GivesUpOneThatDoesNotPay) {
  // What it waits for is not the number of threads.
  const Machine machine{.load = [](double threads) { return 1.05 * kPass * threads; }};
  WorkerTuner tuner(1, 1, 8);
  run(tuner, machine, 60);
  EXPECT_EQ(tuner.workers(), 1);
  run(tuner, machine, 200);
  EXPECT_EQ(tuner.workers(), 1);
}

TEST(WorkerTuner, BeginsAnewWhenDataGetSlowerAgain) {
  WorkerTuner tuner(1, 1, 8);
  run(tuner, taking(2.5), 30);
  const int64_t few = tuner.workers();
  EXPECT_GE(few, 3);
  EXPECT_LE(few, 4);
  run(tuner, taking(5.5), 30);
  EXPECT_GE(tuner.workers(), 6);
}

TEST(WorkerTuner, WithoutTheTimeThatLoadingTookItTriesOneMoreAtATime) {
  WorkerTuner tuner(1, 1, 8);
  for (int update = 0; update < 6; ++update) tuner.after_update({64, 0.3, 0.2, 0});
  EXPECT_EQ(tuner.workers(), 2);
}

TEST(WorkerTuner, LeavesATypedNumberAlone) {
  WorkerTuner tuner(3, 3, 3);
  run(tuner, taking(5), 100);
  EXPECT_EQ(tuner.workers(), 3);
}

}  // namespace
}  // namespace autotrain
