#include "lr/race.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/text.h"
#include "lr/race_page.h"
#include "support/support.h"

namespace autotrain {
namespace {

using Rates = std::vector<double>;

constexpr double kLost = std::numeric_limits<double>::infinity();
constexpr double kAbsent = std::numeric_limits<double>::quiet_NaN();

// The rule of the plan takes the recipe's rate times two.
LearningRateTest test_with(const RateSuggestion& found, double own = 0.002) {
  LearningRateTest test{.suggestion = found};
  test.plan.lr = {.base = own, .reference_batch = 64, .rule = "sqrt", .scaled = 2 * own};
  return test;
}

TEST(RatesToRace, LieAroundTheSuggestionAtTheReferenceBatchWithTheRecipesOwn) {
  const RateGrid grid = rates_to_race(test_with({.lr = 0.2, .recipe_lr = 0.1}));
  EXPECT_EQ(grid.rates, (Rates{0.002, 0.01, 0.0316, 0.1, 0.316, 1}));
  EXPECT_EQ(grid.origin, "around 0.1, which the range test suggests");
}

TEST(RatesToRace, GiveWayToTheRecipesOwnWhereTheyNearlyAreIt) {
  EXPECT_EQ(rates_to_race(test_with({.lr = 0.2}, 0.03)).rates, (Rates{0.01, 0.03, 0.1, 0.316, 1}));
  EXPECT_EQ(rates_to_race(test_with({.lr = 0.2}, 0.02)).rates, (Rates{0.01, 0.02, 0.0316, 0.1, 0.316, 1}));
}

TEST(RatesToRace, LieAroundWhatAnUndeterminedTestKnowsElseAroundTheRecipesOwn) {
  const auto middle = [](const RateSuggestion& found) {
    return rates_to_race(test_with(found, 1e-5)).rates[3];
  };
  EXPECT_EQ(middle({.edge = RateSpread{0.8}}), 0.1) << "a quarter of the edge, the rule undone";
  EXPECT_EQ(middle({.valley_end = RateSpread{1.2}}), 0.2) << "a third of it, likewise";
  EXPECT_EQ(middle({.edge = RateSpread{0.8}, .valley_end = RateSpread{1.2}}), 0.1) << "the smaller one";
  const RateGrid own = rates_to_race(test_with({}, 0.001));
  EXPECT_EQ(own.rates, (Rates{0.0001, 0.000316, 0.001, 0.00316, 0.01}));
  EXPECT_TRUE(test::holds(own.origin, "the recipe's own")) << own.origin;
}

TEST(RatesToRace, ThatWereAskedForAreTakenAsTheyAreOnceEach) {
  EXPECT_EQ(rates_to_race({0.3, 0.1234567, 0.3}, 0.0011).rates, (Rates{0.0011, 0.1234567, 0.3}));
  EXPECT_EQ(rates_to_race({0.5}, 0.5).rates, Rates{0.5});
}

// Four rates of which two go on to the end; the recipe's own is 0.01.
RateRace race_with(std::vector<Rates> medians) {
  RateRace race{
      .figure = "accuracy", .seeds = 3, .own_lr = 0.01, .reference_batch = 64, .shares = {1.0 / 3, 1}};
  const Rates rates = {0.001, 0.01, 0.1, 1};
  for (size_t i = 0; i < medians.size(); ++i)
    race.racers.push_back({.lr = rates[i], .medians = std::move(medians[i])});
  return race;
}

RateRace decided() {
  RateRace race = race_with({{0.2, kAbsent}, {0.6, 0.8}, {0.5, 0.9}, {-kLost, kAbsent}});
  race.racers[3].diverged = 3;
  race.racers[1].told_apart = true;
  return race;
}

TEST(Race, TheBestMedianAtTheEndWinsAndEveryRateHasAFate) {
  const RateRace race = decided();
  EXPECT_EQ(finishing_order(race), (std::vector<size_t>{2, 1}));
  EXPECT_EQ(fate_of(race, 0), RacerFate::kLeftOut);
  EXPECT_EQ(fate_of(race, 1), RacerFate::kFinished);
  EXPECT_EQ(fate_of(race, 2), RacerFate::kWon);
  EXPECT_EQ(fate_of(race, 3), RacerFate::kDiverged);
  EXPECT_EQ(grid_end_of(race), GridEnd::kNone) << "the rate beyond it diverged";
  EXPECT_EQ(answer_of(race), "optimizer: {lr: 0.1, reference_batch: 64}  # 0.01 → 0.1");
  const page::Table table = table_of(race);
  EXPECT_EQ(table.rows[0], (std::vector<std::string>{"0.001", "0.2", "-", "left out after 33 % of its run"}));
  EXPECT_EQ(table.rows[1],
            (std::vector<std::string>{"0.01", "0.6", "0.8", "came to the end (the recipe's own)"}));
  EXPECT_EQ(table.rows[3], (std::vector<std::string>{"1", "-", "-", "diverged in 3 of 3 runs"}));
}

TEST(Race, OfLossesTheSmallerMedianWinsAndOfEqualsTheRecipesOwn) {
  RateRace race = race_with({{1, 0.5}, {1, 0.5}, {2, kAbsent}});
  race.lower_is_better = true;
  EXPECT_EQ(finishing_order(race), (std::vector<size_t>{1, 0})) << "the recipe's own";
  race.racers[0].medians[1] = 0.4;
  EXPECT_EQ(finishing_order(race).front(), 0u);
}

std::string told(const RateRace& race) {
  return join(sentences_of(race), "\n");
}

TEST(Race, SaysHowSurelyTheWinnerIsBetter) {
  RateRace race = decided();
  EXPECT_TRUE(test::holds(told(race), "0.1 is better than 0.01 beyond what seeds explain"));
  race.racers[1].told_apart = false;
  race.racers[1].seeds_needed = 12;
  EXPECT_TRUE(test::holds(
      told(race), "not distinguishable with these seeds; about 12 of each would be needed (--seeds 12)"));
  EXPECT_TRUE(test::holds(told(race), "nothing here speaks for changing"));
  EXPECT_TRUE(test::holds(answer_of(race), "not distinguishable from 0.01 with these seeds"));
  race.racers[1].contradicted = true;
  EXPECT_TRUE(test::holds(told(race), "0.01 was better than 0.1 beyond what seeds explain"));
  race.racers[1].contradicted = false;
  race.racers[1].told_apart.reset();
  race.seeds = 1;
  EXPECT_TRUE(test::holds(told(race), "One seed tells nothing"));
  EXPECT_TRUE(test::holds(answer_of(race), "one seed, so not tested"));
  race.seeds = 3;
  race.racers[1].medians[1] = -kLost;
  race.racers[1].failed = 2;
  EXPECT_EQ(fate_of(race, 1), RacerFate::kFailed);
  EXPECT_TRUE(test::holds(told(race), "nothing to test it against"));
  EXPECT_TRUE(test::holds(told(race), "own rate, 0.01: failed in 2 of 3 runs"));
}

TEST(Race, AWinnerAtTheEndOfTheRatesAsksForOthersBeyondIt) {
  EXPECT_EQ(told(decided()).find("give larger"), std::string::npos);
  RateRace largest = race_with({{0.2, kAbsent}, {0.6, 0.8}, {0.7, 0.9}});
  EXPECT_EQ(grid_end_of(largest), GridEnd::kLargest);
  EXPECT_TRUE(test::holds(told(largest), "give larger --rates, for instance 0.1,0.32,1."));
  EXPECT_TRUE(test::holds(answer_of(largest), "the largest rate that raced"));
  const RateRace smallest = race_with({{0.7, 0.9}, {0.6, 0.8}, {0.2, kAbsent}});
  EXPECT_EQ(grid_end_of(smallest), GridEnd::kSmallest);
  EXPECT_TRUE(test::holds(told(smallest), "give smaller --rates, for instance 0.001,0.00032,0.0001."));
}

TEST(Race, AWinnerSomeOfWhoseRunsDivergedIsNoSafeOne) {
  RateRace race = decided();
  EXPECT_EQ(told(race).find("But "), std::string::npos);
  race.racers[2].diverged = 1;
  EXPECT_TRUE(test::holds(told(race), "But it diverged in 1 of 3 runs"));
}

TEST(Race, WithoutAWinnerItSaysSo) {
  RateRace all = race_with({{-kLost, kAbsent}, {-kLost, kAbsent}});
  all.racers[0].diverged = all.racers[1].diverged = 3;
  EXPECT_TRUE(finishing_order(all).empty());
  EXPECT_EQ(grid_end_of(all), GridEnd::kNone);
  EXPECT_TRUE(test::holds(told(all), "Every rate was lost"));
  EXPECT_TRUE(test::holds(told(all), "--rates 0.00032,0.0001"));
  EXPECT_TRUE(answer_of(all).starts_with("no winner"));
  const RateRace late = race_with({{0.5, -kLost}, {0.2, kAbsent}});
  EXPECT_TRUE(test::holds(told(late), "before the end of their runs"));
  EXPECT_FALSE(section_of(late).charts.empty());
}

}  // namespace
}  // namespace autotrain
