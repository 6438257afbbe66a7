#include "study/statistics.h"

#include <gtest/gtest.h>

#include <boost/math/distributions/binomial.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
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

TEST(Statistics, PairsEffectsAndEquivalenceEqualSciPys) {
  for (const auto& row : test::fixture("statistics.json").at("effects")) {
    const Values a = row.at("a"), b = row.at("b");
    const auto near = [&](double value, const char* name) {
      EXPECT_NEAR(value, row.at(name).get<double>(), 1e-8 * std::max(1.0, std::abs(value))) << name;
    };
    near(paired_test(a, b).t, "paired_t");
    near(paired_test(a, b).p, "paired_p");
    near(paired_interval(a, b).low, "paired_low");
    near(paired_interval(a, b).high, "paired_high");
    near(correlation(a, b), "correlation");
    near(equivalence_p(a, b, row.at("margin"), /*paired=*/false), "equivalent_p");
    near(hedges_g(a, b).value, "g");
    near(hedges_g(a, b).interval.low, "g_low");
    near(hedges_g(a, b).interval.high, "g_high");
    near(probability_above(a, b).value, "above");
  }
}

TEST(Statistics, TheLogRankTestIsExactOverAllDivisions) {
  const auto times = [](const nlohmann::json& row) {
    Values values;
    for (const auto& time : row) values.push_back(time.is_null() ? HUGE_VAL : time.get<double>());
    return values;
  };
  for (const auto& row : test::fixture("statistics.json").at("log_ranks"))
    EXPECT_NEAR(log_rank_test(times(row.at("a")), times(row.at("b"))).p, row.at("p"), 1e-12);
  EXPECT_TRUE(std::isnan(log_rank_test({}, Values{1}).p));
  EXPECT_TRUE(std::isnan(log_rank_test(Values(15, 1.0), Values(15, 2.0)).p)) << "too many divisions";
}

TEST(Statistics, TheOlympicMeanLeavesOutTheBestAndTheWorst) {
  EXPECT_EQ(olympic_mean({5, 1, 2, 3, 100}), 10.0 / 3);
  EXPECT_EQ(olympic_mean({5, 1, 2, 3, HUGE_VAL}), 10.0 / 3) << "one that never came is the worst";
  EXPECT_TRUE(std::isnan(olympic_mean({5, 1, 2, HUGE_VAL, HUGE_VAL})));
  EXPECT_TRUE(std::isnan(olympic_mean({1, 2, 3, 4})));
}

// The two agree as the definition of two one-sided tests has it, and a margin of nothing is never met.
TEST(Statistics, TheInterquartileMeanIsSciPys) {
  // scipy.stats.trim_mean(x, 0.25)
  EXPECT_NEAR(interquartile_mean({{3, 1, 4, 1, 5}, {9, 2, 6, 5, 3}}).value, 3.6666666666666665, 1e-12);
  EXPECT_NEAR(interquartile_mean({{1, 2, 6}}).value, 3, 1e-12);
  EXPECT_TRUE(std::isnan(interquartile_mean({{}, {}}).value));
  const Estimate tasks = interquartile_mean({{0.1, 0.1, 0.1}, {0.9, 0.9, 0.9}});
  EXPECT_EQ(tasks.interval.low, tasks.interval.high) << "each task is resampled by itself";
}

// Of the mean over five tasks of other levels, where figures are normal.
TEST(Statistics, TheIntervalOfAnInterquartileMeanCoversNearlyAsOftenAsItSays) {
  Random random(7);
  int covered = 0;
  constexpr int kStudies = 200;
  for (int study = 0; study < kStudies; ++study) {
    std::vector<std::vector<double>> tasks(5);
    for (size_t i = 0; i < tasks.size(); ++i) {
      for (int seed = 0; seed < 10; ++seed) tasks[i].push_back(random.normal());
    }
    const Estimate estimate = interquartile_mean(tasks);
    covered += estimate.interval.low <= 0 && 0 <= estimate.interval.high ? 1 : 0;
  }
  EXPECT_GT(covered, kStudies * 0.85);
  EXPECT_LT(covered, kStudies);
}

TEST(Statistics, EquivalenceIsAnIntervalOfNinetyPercentInsideTheMargin) {
  Random random(6);
  for (int i = 0; i < 1000; ++i) {
    const Values a = normal_values(random, 5, 0, 1), b = normal_values(random, 5, 0.2, 1);
    for (const bool paired : {false, true}) {
      const auto inside = paired ? paired_interval(a, b, 0.9) : welch_interval(a, b, 0.9);
      EXPECT_EQ(equivalence_p(a, b, 1, paired) < 0.05, inside.low > -1 && inside.high < 1);
    }
    EXPECT_GE(equivalence_p(a, b, 0, false), 0.5);
  }
}

TEST(Statistics, EffectsAreTurnedRoundWithTheirSamples) {
  Random random(7);
  for (int i = 0; i < 100; ++i) {
    const Values a = normal_values(random, 4, 0, 1), b = normal_values(random, 6, 1, 1);
    EXPECT_NEAR(hedges_g(a, b).interval.low, -hedges_g(b, a).interval.high, 1e-8);
    EXPECT_NEAR(probability_above(a, b).value, 1 - probability_above(b, a).value, 1e-12);
    EXPECT_NEAR(probability_above(a, b).interval.low, 1 - probability_above(b, a).interval.high, 1e-9);
  }
}

// What rounding leaves of a sum is no spread: 0.9 + 0.9 + 0.9 is not three times 0.9.
TEST(Statistics, EqualValuesHaveNoSpread) {
  for (const double value : {0.9, 0.1, 1.0 / 3}) EXPECT_EQ(standard_deviation(Values(7, value)), 0);
  EXPECT_TRUE(std::isnan(paired_test(Values{0.1, 0.2, 0.3}, Values{0.2, 0.3, 0.4}).degrees));
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

// Welch's own degrees of freedom would say so of one study in ten.
TEST(Statistics, AFewValuesAgainstManyAreToldApartNoOftenerThanStated) {
  Random random(8);
  constexpr int kStudies = 2000;
  for (const auto& [few, many] : {std::pair<size_t, size_t>{2, 10}, {2, 4}, {3, 10}}) {
    for (const double deviation : {1.0, 3.0}) {
      int told = 0;
      for (int i = 0; i < kStudies; ++i) {
        const Values a = normal_values(random, few, 0, deviation), b = normal_values(random, many, 0, 1);
        told += welch_test(a, b).p < 0.05 ? 1 : 0;
      }
      const boost::math::binomial stated(kStudies, 0.05);
      EXPECT_LE(told, boost::math::quantile(boost::math::complement(stated, 0.001)))
          << few << " against " << many << ", " << deviation << " times the spread";
    }
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
