#include "study/statistics.h"

#include <gtest/gtest.h>

#include <boost/math/distributions/binomial.hpp>
#include <cmath>
#include <numbers>

#include "base/random.h"
#include "support/fixtures.h"

namespace autotrain {
namespace {

using Values = std::vector<double>;

Values normal_values(Random& random, size_t count, double centre, double deviation) {
  Values values(count);
  for (double& value : values) value = centre + deviation * random.normal();
  return values;
}

TEST(Statistics, EqualSciPys) {
  const auto expected = test::fixture("statistics.json");
  for (const auto& row : expected.at("pairs")) {
    const Values a = row.at("a"), b = row.at("b");
    EXPECT_DOUBLE_EQ(mean(a), row.at("mean"));
    EXPECT_NEAR(standard_deviation(a) / row.at("deviation").get<double>(), 1, 1e-13);
    const WelchTest test = welch_test(a, b);
    EXPECT_NEAR(test.t / row.at("t").get<double>(), 1, 1e-10);
    EXPECT_NEAR(test.degrees / row.at("degrees").get<double>(), 1, 1e-10);
    EXPECT_NEAR(test.p / row.at("p").get<double>(), 1, 1e-9);
    EXPECT_EQ(runs_needed(mean(b) - mean(a), standard_deviation(a), standard_deviation(b),
                          expected.at("alpha"), expected.at("power")),
              row.at("needed").get<int64_t>());
  }
  const Values adjusted = holm(expected.at("holm").at("p"));
  for (size_t i = 0; i < adjusted.size(); ++i)
    EXPECT_DOUBLE_EQ(adjusted[i], expected.at("holm").at("adjusted").at(i));
}

TEST(Statistics, IntervalsEqualSciPys) {
  const auto expected = test::fixture("statistics.json");
  for (const auto& row : expected.at("pairs")) {
    const auto interval = welch_interval(row.at("a").get<Values>(), row.at("b").get<Values>());
    const double low = row.at("low"), high = row.at("high");
    EXPECT_NEAR(interval.low, low, 1e-10 * (high - low));
    EXPECT_NEAR(interval.high, high, 1e-10 * (high - low));
  }
  for (const auto& row : expected.at("shares")) {
    const auto interval = share_interval(row.at("count"), row.at("of"));
    EXPECT_NEAR(interval.low, row.at("low"), 1e-9);
    EXPECT_NEAR(interval.high, row.at("high"), 1e-9);
  }
}

// What is said of an interval and what a test says of the same values never contradict each other.
TEST(Statistics, AnIntervalLeavesOutZeroWhereItsTestFindsADifference) {
  Random random(3);
  for (int i = 0; i < 2000; ++i) {
    const Values a = normal_values(random, 2 + static_cast<size_t>(random.below(5)), 0, 1);
    const Values b = normal_values(random, 2 + static_cast<size_t>(random.below(5)), 1, 0.5);
    const auto interval = welch_interval(a, b);
    EXPECT_EQ(interval.low > 0 || interval.high < 0, welch_test(a, b).p < 0.05);
  }
}

// With two values of each, too, where resampling them covers two studies of three.
TEST(Statistics, AnIntervalCoversAsOftenAsItSays) {
  Random random(4);
  constexpr int kStudies = 4000;
  for (const size_t seeds : {2, 3, 5, 10}) {
    int covered = 0;
    for (int i = 0; i < kStudies; ++i) {
      const auto interval =
          welch_interval(normal_values(random, seeds, 0, 1), normal_values(random, seeds, 0.7, 1));
      covered += interval.low <= 0.7 && 0.7 <= interval.high ? 1 : 0;
    }
    const boost::math::binomial stated(kStudies, 0.95);
    EXPECT_GE(covered, boost::math::quantile(stated, 0.001)) << seeds << " seeds";
    RecordProperty("covered_of_" + std::to_string(seeds), covered);
  }
}

TEST(Statistics, OneValueOrNoneGivesNoTest) {
  const Values none, one = {0.9}, three = {0.8, 0.9, 1.0};
  EXPECT_TRUE(std::isnan(mean(none)));
  EXPECT_TRUE(std::isnan(standard_deviation(one)));
  EXPECT_TRUE(std::isnan(welch_test(one, three).p));
  EXPECT_TRUE(std::isnan(welch_interval(three, none).low));
  EXPECT_EQ(runs_needed(0.1, standard_deviation(one), 0.1, 0.05), std::nullopt);
}

TEST(Statistics, AMeanAboveABoundIsStudentsTTest) {
  const std::vector<double> values = {0.3, -0.1, 0.4, 0.2};
  // With three degrees of freedom the distribution is in closed form.
  const double t = 0.15 / std::sqrt(0.14 / 3 / 4), angle = std::atan(t / std::sqrt(3));
  const double p = 0.5 - (angle + std::sin(angle) * std::cos(angle)) / std::numbers::pi;
  EXPECT_NEAR(p_of_mean_above(values, 0.05), p, 1e-12);
  EXPECT_NEAR(p_of_mean_above(values, mean(values)), 0.5, 1e-12);
  EXPECT_TRUE(std::isnan(p_of_mean_above(std::vector<double>{1}, 0)));
  EXPECT_EQ(p_of_mean_above(std::vector<double>{1, 1}, 0), 0);
  EXPECT_EQ(p_of_mean_above(std::vector<double>{1, 1}, 1), 1);
}

TEST(Statistics, ValuesThatDoNotVaryAreEqualOrDifferentForSure) {
  const Values a = {0.5, 0.5, 0.5}, b = {0.75, 0.75, 0.75};
  EXPECT_EQ(welch_test(a, a).p, 1);
  EXPECT_EQ(welch_test(a, b).p, 0);
  EXPECT_EQ(welch_interval(a, b).low, 0.25);
  EXPECT_EQ(welch_interval(a, b).high, 0.25);
  EXPECT_EQ(runs_needed(0.25, 0, 0, 0.05), 2);
  EXPECT_EQ(runs_needed(0, 0.1, 0.1, 0.05), std::nullopt);
}

TEST(Statistics, EffectsOfAnySizeHaveANumberOfRuns) {
  int64_t before = kMostRunsNeeded;
  EXPECT_EQ(runs_needed(1e-6, 1, 1, 0.05), std::nullopt);
  for (double effect = 0.05; effect < 1e6; effect *= 1.5) {
    const int64_t needed = runs_needed(effect, 1, 0.5, 0.05 / 28).value();
    EXPECT_LE(needed, before);
    EXPECT_GE(needed, 2);
    before = needed;
  }
}

TEST(Statistics, HolmLeavesOutWhatWasNotTested) {
  const Values adjusted = holm({0.01, NAN, 0.04, 0.03});
  EXPECT_DOUBLE_EQ(adjusted[0], 0.03);
  EXPECT_TRUE(std::isnan(adjusted[1]));
  EXPECT_DOUBLE_EQ(adjusted[2], 0.06);  // not below that of a smaller p
  EXPECT_DOUBLE_EQ(adjusted[3], 0.06);
}

TEST(Statistics, TheNumberOfRunsNeededFindsTheDifferenceAsOftenAsItSays) {
  const int64_t needed = runs_needed(1, 1, 0.5, 0.05).value();
  constexpr int kStudies = 2000;
  Random random(5);
  int found = 0;
  for (int i = 0; i < kStudies; ++i) {
    const Values a = normal_values(random, static_cast<size_t>(needed), 0, 1);
    const Values b = normal_values(random, static_cast<size_t>(needed), 1, 0.5);
    found += welch_test(a, b).p < 0.05 ? 1 : 0;
  }
  EXPECT_NEAR(found / static_cast<double>(kStudies), 0.8, 0.04);
}

}  // namespace
}  // namespace autotrain
