#include "lr/rate_curve.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <set>

namespace autotrain {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(RateCurve, TheGridEndsWithTheLastRateThatIsNotAboveItsEnd) {
  EXPECT_EQ(rate_grid(1, 1, 2), std::vector<double>{1});
  const std::vector<double> grid = rate_grid(0.001, 1, 10);
  ASSERT_EQ(grid.size(), 4U);
  EXPECT_NEAR(grid.back(), 1, 1e-12);
  EXPECT_EQ(rate_grid(1, 9.9, 10).size(), 1U);
}

TEST(RateCurve, ALossThatRisesAboveFourTimesItsLeastDiverges) {
  LossWatch watch;
  for (int i = 0; i < 50; ++i) watch.add(2);
  EXPECT_NEAR(watch.smoothed(), 2, 1e-12) << "no bias of the start";
  watch.add(20);
  EXPECT_FALSE(watch.diverged()) << "one window";
  for (int i = 0; i < 20; ++i) watch.add(20);
  EXPECT_TRUE(watch.diverged());
}

TEST(RateCurve, ALossBelowZeroDivergesByItsSizeToo) {
  LossWatch watch;
  watch.add(-2);
  EXPECT_FALSE(watch.is_far_above(3.9));
  EXPECT_TRUE(watch.is_far_above(4.1));
}

TEST(RateCurve, ALossThatIsNotFiniteDiverges) {
  LossWatch watch;
  watch.add(1);
  watch.add(kInfinity);
  watch.add(1);
  EXPECT_TRUE(watch.diverged());
  EXPECT_TRUE(diverged_when_held({std::nan("")}));
  EXPECT_TRUE(diverged_when_held({kInfinity}));
}

TEST(RateCurve, ARiseThatIsOverAtTheEndIsNoDivergence) {
  EXPECT_FALSE(diverged_when_held({1, 60, 30, 8, 2, 1, 1, 1}));
  EXPECT_TRUE(diverged_when_held({1, 1, 1, 2, 8, 30, 60, 90}));
  EXPECT_FALSE(diverged_when_held({1, 1, 1, 1, 1, 1, 1, 1}));
}

std::vector<RatePoint> curve(double noise, const std::function<double(double)>& loss) {
  std::minstd_rand generator(5);
  std::normal_distribution<double> normal(0, 1);
  std::vector<RatePoint> points;
  for (const double rate : rate_grid(1e-5, 1, 1.1))
    points.push_back({rate, loss(rate) + noise * normal(generator)});
  return points;
}

// From 2 to 1, steepest at 0.01.
double step_at_a_hundredth(double rate) {
  return 1.5 - 0.5 * std::tanh(std::log(rate / 0.01));
}

TEST(RateCurve, TheSteepestRateIsWhereTheCurveTurns) {
  const auto exact = steepest_rate(curve(0, step_at_a_hundredth));
  ASSERT_TRUE(exact);
  EXPECT_NEAR(std::log(*exact / 0.01), 0, std::log(1.1));
  const auto noisy = steepest_rate(curve(0.05, step_at_a_hundredth));
  ASSERT_TRUE(noisy);
  EXPECT_NEAR(std::log(*noisy / 0.01), 0, std::log(2)) << "not later, as a moving average would have it";
}

TEST(RateCurve, ACurveThatIsNoiseHasNoSteepestRate) {
  EXPECT_FALSE(steepest_rate(curve(1, [](double) { return 2; })));
  EXPECT_FALSE(steepest_rate(curve(0, [](double rate) { return 2 + rate; }))) << "it rises";
  EXPECT_FALSE(steepest_rate({}));
  EXPECT_FALSE(steepest_rate({{1, 3}, {2, 1}}));
}

// From 2 to 1 around 0.001, and above 0.1 up again.
double valley_to_a_tenth(double rate) {
  return 1.5 - 0.5 * std::tanh(std::log(rate / 0.001)) + std::pow(rate / 0.1, 4);
}

TEST(RateCurve, AValleyEndsWhereTheLossHasRisenByAFifthOfItsFall) {
  const auto exact = end_of_valley(curve(0, valley_to_a_tenth));
  ASSERT_TRUE(exact);
  // (rate / 0.1)^4 is 0.2 at 0.067; a mean over rates up to twice higher sees the rise earlier.
  EXPECT_LT(*exact, 0.067);
  EXPECT_GT(*exact, 0.067 / 2);
  for (const double noise : {0.05, 0.2}) {
    const auto noisy = end_of_valley(curve(noise, valley_to_a_tenth));
    ASSERT_TRUE(noisy);
    EXPECT_NEAR(std::log(*noisy / *exact), 0, std::log(1.5)) << "with noise of " << noise;
  }
}

TEST(RateCurve, AValleyIsNotOverWhereALossIsHighForOneWindowOrABump) {
  const auto bumpy = [](double rate) {
    return valley_to_a_tenth(rate) + (rate > 0.008 && rate < 0.012 ? 3 : 0);
  };
  EXPECT_EQ(end_of_valley(curve(0, bumpy)), end_of_valley(curve(0, valley_to_a_tenth)));
}

TEST(RateCurve, AValleyThatTheGridDoesNotEndReachesToItsEnd) {
  const auto points = curve(0, step_at_a_hundredth);
  EXPECT_EQ(end_of_valley(points), points.back().lr);
  EXPECT_FALSE(end_of_valley({}));
  EXPECT_FALSE(end_of_valley({{1, 3}, {2, 1}}));
}

TEST(RateCurve, DoublingAndHalvingFindTheLargestThatHoldsFromAnyGuess) {
  for (size_t count = 1; count < 30; ++count) {
    for (size_t guess = 0; guess <= count; ++guess) {
      for (size_t holding = 0; holding <= count; ++holding) {  // so many hold
        std::set<size_t> tried;
        const auto found = largest_that_holds(guess, count, [&](size_t i) {
          EXPECT_LT(i, count);
          EXPECT_TRUE(tried.insert(i).second) << i << " twice";
          return i < holding;
        });
        EXPECT_EQ(found, holding == 0 ? std::nullopt : std::optional(holding - 1));
        EXPECT_EQ(tried.contains(holding), holding < count) << "what shows that it is the largest";
        EXPECT_LE(tried.size(), 2 * static_cast<size_t>(std::ceil(std::log2(count + 1))) + 1);
      }
    }
  }
}

}  // namespace
}  // namespace autotrain
