#include "measure/timing.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace autotrain {
namespace {

std::vector<double> drawn(std::mt19937_64& random, size_t count) {
  std::lognormal_distribution<double> latency(0, 0.5);
  std::vector<double> values(count);
  for (double& value : values) value = latency(random);
  std::ranges::sort(values);
  return values;
}

TEST(Timing, QuantilesLieBetweenNeighbours) {
  EXPECT_EQ(quantile({1, 2, 3, 4}, 0), 1);
  EXPECT_EQ(quantile({1, 2, 3, 4}, 0.5), 2.5);
  EXPECT_EQ(quantile({1, 2, 3, 4}, 1), 4);
  EXPECT_EQ(quantile({7}, 0.99), 7);
}

// Ranks from tables of the sign test.
TEST(Timing, TheMedianLiesBetweenTheRanksOfTheSignTest) {
  const std::vector<double> six = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(median_interval(six)->low, 1);
  EXPECT_EQ(median_interval(six)->high, 6);
  std::vector<double> twenty;
  for (int i = 1; i <= 20; ++i) twenty.push_back(i);
  EXPECT_EQ(median_interval(twenty)->low, 6);
  EXPECT_EQ(median_interval(twenty)->high, 15);
}

// A repeat takes a microsecond and starting a pass a tenth of a millisecond.
TEST(Timing, APassThatOtherWorkMadeLongSetsNoNumberOfRepeats) {
  int passes = 0;
  const auto time_pass = [&](int64_t repeats) {
    return (passes++ == 0 ? 0.05 : 0) + 1e-4 + 1e-6 * static_cast<double>(repeats);
  };
  EXPECT_NEAR(seconds_of_repeat(time_pass, {}), 1e-6, 1e-8);
  passes = 1;
  EXPECT_NEAR(seconds_of_repeat(time_pass, {}), 1e-6, 1e-8) << "as where nothing disturbs";
  int calls = 0;
  EXPECT_EQ(seconds_of_repeat([&](int64_t) { return ++calls, 2.0; }, {.seconds = 1}), 2);
  EXPECT_EQ(calls, 3) << "of a long work the least";
}

TEST(Timing, FiveValuesCannotTellWhereTheMedianIs) {
  EXPECT_FALSE(median_interval({1, 2, 3, 4, 5}));
}

TEST(Timing, TheIntervalHoldsTheTrueMedianAsOftenAsItSays) {
  std::mt19937_64 random(1);
  for (const size_t count : {7u, 20u, 101u}) {
    int held = 0;
    constexpr int kTrials = 2000;
    for (int i = 0; i < kTrials; ++i) {
      const auto interval = median_interval(drawn(random, count));
      held += interval->low <= 1 && 1 <= interval->high;  // the median of this distribution is 1
    }
    EXPECT_GE(held, kTrials * 0.94) << count;  // 95 % less two and a half deviations of the count
  }
}

TEST(Timing, RepeatingEndsWhenTheMedianIsKnown) {
  const RepeatRule rule{.least = 20, .seconds = 10};
  EXPECT_FALSE(repeat_end(std::vector<double>(19, 1.0), 1, rule));
  EXPECT_EQ(repeat_end(std::vector<double>(20, 1.0), 1, rule), RepeatEnd::kNarrow);
  std::vector<double> wild;
  for (int i = 0; i < 20; ++i) wild.push_back(1 + i);
  EXPECT_FALSE(repeat_end(wild, 1, rule));
}

TEST(Timing, RepeatingEndsWhenTimeOrPatienceIsSpent) {
  const RepeatRule rule{.most = 50, .at_least = 3, .seconds = 10};
  EXPECT_FALSE(repeat_end({1, 2}, 11, rule));
  EXPECT_EQ(repeat_end({1, 2, 3}, 11, rule), RepeatEnd::kSeconds);
  EXPECT_EQ(repeat_end(std::vector<double>(50, 1.0), 1, rule), RepeatEnd::kRepeats);
}

}  // namespace
}  // namespace autotrain
