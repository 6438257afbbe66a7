#include "lr/suggestion.h"

#include <gtest/gtest.h>

namespace autotrain {
namespace {

constexpr double kTiny = 1e-12;

// The rule of the plan takes the recipe's rate times two.
const LearningRatePlan kPlan = {.base = 0.1, .reference_batch = 64, .rule = "sqrt", .scaled = 0.2};

RateStretch stretch(std::optional<double> edge, std::optional<double> valley_end) {
  return {.edge = edge, .diverges = true, .steepest = 0.01, .valley_end = valley_end};
}

TEST(Suggestion, IsTheSmallerOfAQuarterOfTheEdgeAndAThirdOfTheValleysEnd) {
  const RateSuggestion far = suggest({stretch(40, 3), stretch(40, 3)}, kPlan);
  ASSERT_TRUE(far.lr);
  EXPECT_NEAR(*far.lr, 1, kTiny);
  const RateSuggestion near = suggest({stretch(8, 30), stretch(8, 30)}, kPlan);
  EXPECT_NEAR(near.lr.value(), 2, kTiny);
  EXPECT_EQ(near.why_not, "");
}

TEST(Suggestion, IsTheGeometricMeanOfTheStretches) {
  EXPECT_NEAR(suggest({stretch(8, 30), stretch(18, 30)}, kPlan).lr.value(), 3, kTiny);
}

TEST(Suggestion, OfARecipeIsAtItsReferenceBatchSoThatTheRuleIsNotAppliedTwice) {
  EXPECT_NEAR(suggest({stretch(8, 30)}, kPlan).recipe_lr.value(), 1, kTiny);
}

TEST(Suggestion, IsUndeterminedWhereStretchesAreMoreThanThreeTimesApart) {
  EXPECT_TRUE(suggest({stretch(8, 3), stretch(8, 6), stretch(8, 8.7)}, kPlan).lr) << "2 is a quarter of 8";
  const RateSuggestion apart = suggest({stretch(80, 3), stretch(80, 6), stretch(80, 9.3)}, kPlan);
  EXPECT_FALSE(apart.lr);
  EXPECT_FALSE(apart.recipe_lr);
  EXPECT_NE(apart.why_not.find("3.1 times apart"), std::string::npos) << apart.why_not;
  EXPECT_NEAR(apart.valley_end->spread, 3.1, kTiny);
  EXPECT_NEAR(apart.edge->mean, 80, 1e-9);
}

TEST(Suggestion, IsUndeterminedWhereTheGridDoesNotShowTheValleyOrNothingFalls) {
  RateStretch calm = stretch({}, {});
  calm.diverges = false;
  EXPECT_NE(suggest({stretch(8, 3), calm}, kPlan).why_not.find("--to"), std::string::npos);
  EXPECT_NE(suggest({stretch({}, 3)}, kPlan).why_not.find("--from"), std::string::npos);
  RateStretch noisy = stretch(8, 3);
  noisy.steepest.reset();
  EXPECT_NE(suggest({noisy}, kPlan).why_not.find("on stretch 1 the loss does not fall"), std::string::npos);
  EXPECT_TRUE(suggest({noisy, stretch(8, 3)}, kPlan).steepest) << "of the stretch that has one";
}

// Rates from 0.001 on, of which those from a tenth of the steepest (0.01) to the valley's end (3) are learned
// at: all.
TEST(Suggestion, IsUndeterminedWhereTheLossMayFallBecauseFewSamplesAreReadAgainAndAgain) {
  RateStretch fallen = stretch(8, 3);
  for (const double rate : rate_grid(0.001, 3, 1.1)) fallen.points.push_back({rate, 1});
  ASSERT_EQ(fallen.points.size(), 85U);
  const RateSuggestion few = suggest({fallen}, kPlan, {.effective_batch = 32, .samples = 40});
  EXPECT_FALSE(few.lr);
  EXPECT_NE(few.why_not.find("each of the 40 samples was read 68 times"), std::string::npos) << few.why_not;
  EXPECT_TRUE(suggest({fallen}, kPlan, {.effective_batch = 32, .samples = 40'000}).lr);
  EXPECT_TRUE(suggest({fallen}, kPlan).lr) << "it is not known how many there are";
  EXPECT_DOUBLE_EQ(times_read(fallen, {.effective_batch = 10, .samples = 85}), 10);
}

TEST(Suggestion, NeedsTheEdgeOrTheEndOfTheValleyAndNotBoth) {
  RateStretch calm = stretch({}, 6);
  calm.diverges = false;
  EXPECT_NEAR(suggest({calm}, kPlan).lr.value(), 2, kTiny) << "it rises out of its valley without diverging";
  EXPECT_NEAR(suggest({stretch(8, {})}, kPlan).lr.value(), 2, kTiny) << "diverges when it is held";
}

TEST(Suggestion, MeansAreGeometric) {
  const RateSpread found = spread_of({1, 100}).value();
  EXPECT_NEAR(found.mean, 10, kTiny);
  EXPECT_NEAR(found.spread, 100, kTiny);
  EXPECT_FALSE(spread_of({}));
}

}  // namespace
}  // namespace autotrain
