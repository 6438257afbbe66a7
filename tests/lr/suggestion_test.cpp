#include "lr/suggestion.h"

#include <gtest/gtest.h>

namespace autotrain {
namespace {

constexpr double kTiny = 1e-12;

// The rule of the plan takes the recipe's rate times two.
const LearningRatePlan kPlan = {.base = 0.1, .reference_batch = 64, .rule = "sqrt", .scaled = 0.2};

RateStretch stretch(std::optional<double> edge, std::optional<double> steepest) {
  return {.edge = edge, .diverges = true, .steepest = steepest};
}

TEST(Suggestion, IsTheSmallerOfAQuarterOfTheEdgeAndTheSteepestPoint) {
  const RateSuggestion far = suggest({stretch(8, 1), stretch(8, 1)}, kPlan);
  ASSERT_TRUE(far.lr);
  EXPECT_NEAR(*far.lr, 1, kTiny);
  const RateSuggestion near = suggest({stretch(8, 5), stretch(8, 5)}, kPlan);
  EXPECT_NEAR(near.lr.value(), 2, kTiny);
  EXPECT_EQ(near.why_not, "");
}

TEST(Suggestion, OfARecipeIsAtItsReferenceBatchSoThatTheRuleIsNotAppliedTwice) {
  EXPECT_NEAR(suggest({stretch(8, 5)}, kPlan).recipe_lr.value(), 1, kTiny);
}

TEST(Suggestion, IsUndeterminedWhereStretchesAreMoreThanThreeTimesApart) {
  EXPECT_TRUE(suggest({stretch(8, 1), stretch(8, 2), stretch(8, 2.9)}, kPlan).lr) << "2 is a quarter of 8";
  const RateSuggestion apart = suggest({stretch(80, 1), stretch(80, 2), stretch(80, 3.1)}, kPlan);
  EXPECT_FALSE(apart.lr);
  EXPECT_FALSE(apart.recipe_lr);
  EXPECT_NE(apart.why_not.find("3.1 times apart"), std::string::npos) << apart.why_not;
  EXPECT_NEAR(apart.steepest->spread, 3.1, kTiny);
  EXPECT_NEAR(apart.edge->mean, 80, 1e-9);
}

TEST(Suggestion, IsUndeterminedWhereAStretchHasNoEdgeOrNothingFalls) {
  RateStretch calm = stretch({}, 1);
  calm.diverges = false;
  EXPECT_NE(suggest({stretch(8, 1), calm}, kPlan).why_not.find("--to"), std::string::npos);
  EXPECT_NE(suggest({stretch({}, 1)}, kPlan).why_not.find("--from"), std::string::npos);
  EXPECT_NE(suggest({stretch(8, {})}, kPlan).why_not.find("on stretch 1 the loss does not fall"),
            std::string::npos);
  EXPECT_TRUE(suggest({stretch(8, {}), stretch(8, 1)}, kPlan).steepest) << "of the stretch that has one";
}

TEST(Suggestion, MeansAreGeometric) {
  const RateSpread found = spread_of({1, 100}).value();
  EXPECT_NEAR(found.mean, 10, kTiny);
  EXPECT_NEAR(found.spread, 100, kTiny);
  EXPECT_FALSE(spread_of({}));
}

}  // namespace
}  // namespace autotrain
