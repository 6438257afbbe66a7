#include "data/loading_rates.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace autotrain {
namespace {

TEST(LoadingRates, AskForAsManyThreadsAsThePassesHaveSecondsToLoad) {
  EXPECT_EQ(threads_for({}, 16), 1);
  EXPECT_EQ(threads_for({.pass_samples_per_second = 4000}, 16), 1);
  EXPECT_EQ(threads_for({1000, 1e-4}, 16), 1);
  EXPECT_EQ(threads_for({1000, 2e-3}, 16), 3);  // two and a margin
  EXPECT_EQ(threads_for({4674, 5e-3}, 15), 15);
  EXPECT_EQ(threads_for({1e12, 1}, 15), 15);
}

TEST(LoadingRates, TellHowLongTheStepWillWait) {
  EXPECT_EQ(expected_waiting({}, 1), 0);
  EXPECT_EQ(expected_waiting({1000, 2e-3}, 3), 0);
  EXPECT_DOUBLE_EQ(expected_waiting({1000, 2e-2}, 15), 0.25);
}

TEST(LoadTimes, AreOfAThreadForEachSample) {
  LoadTimes times;
  EXPECT_EQ(times.take_mean(), 0);
  times.add(1, 10);
  times.add(2, 20);
  times.add(3, 10);
  EXPECT_DOUBLE_EQ(times.take_mean(), 6.0 / 40);
  EXPECT_EQ(times.take_mean(), 0);
}

TEST(LoadTimes, OfMostBatchesDoNotCountWhatIsMadeForTheFirstTime) {
  LoadTimes times;
  EXPECT_EQ(times.take_typical(), 0);
  times.add(0.5, 10);
  EXPECT_DOUBLE_EQ(times.take_typical(), 0.05);
  for (const double seconds : {9.0, 8.0, 5.0, 2.0, 1.0, 1.0, 1.0, 1.0}) times.add(seconds, 10);
  EXPECT_DOUBLE_EQ(times.take_typical(), 0.1);
  EXPECT_EQ(times.take_typical(), 0);
}

TEST(LoadTimes, MayBeAddedFromSeveralThreads) {
  LoadTimes times;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int batch = 0; batch < 1000; ++batch) times.add(0.25, 1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_DOUBLE_EQ(times.take_mean(), 0.25);
}

}  // namespace
}  // namespace autotrain
