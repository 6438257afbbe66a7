#include "loop/evaluation_runner.h"

#include <cmath>

#include "support/support.h"

namespace autotrain {
namespace {

EvaluationRecord evaluation(int64_t update, double area, double loss = 1) {
  return {.update = update,
          .split = "validation",
          .figures = {{"loss", loss}, {"area", area}},
          .kinds = {{"loss", {}}, {"area", {.better = Better::kHigher}}}};
}

Recipe monitoring_area() {
  Recipe recipe;
  recipe.evaluation.monitor = "area";
  return recipe;
}

TEST(TakeIntoAccount, AFigureThatWasNeverDefinedIsNoEvaluationWithoutImprovement) {
  Position position;
  for (int64_t i = 1; i <= 3; ++i)
    EXPECT_FALSE(take_into_account(evaluation(i, std::nan("")), monitoring_area(), position));
  EXPECT_EQ(position.evaluations_since_best, 0);
  EXPECT_TRUE(take_into_account(evaluation(4, 0.5), monitoring_area(), position));
  take_into_account(evaluation(5, std::nan("")), monitoring_area(), position);
  EXPECT_EQ(position.evaluations_since_best, 0) << "the loss is a number: these data did not tell the area";
  take_into_account(evaluation(6, std::nan(""), std::nan("")), monitoring_area(), position);
  EXPECT_EQ(position.evaluations_since_best, 1) << "the model is broken";
  take_into_account(evaluation(7, 0.4), monitoring_area(), position);
  EXPECT_EQ(position.evaluations_since_best, 2);
}

TEST(TakeIntoAccount, OneThatWasNotDueMayBeTheBestAndCountsForNoPatience) {
  Position straight, extended;
  const Recipe recipe = monitoring_area();
  for (Position* const position : {&straight, &extended}) {
    take_into_account(evaluation(1, 0.5), recipe, *position);
    if (position == &extended) {
      position->evaluation_extra = true;
      EXPECT_TRUE(take_into_account(evaluation(2, 0.9), recipe, *position));
      position->evaluation_extra = false;
    }
    take_into_account(evaluation(3, 0.6), recipe, *position);
    take_into_account(evaluation(4, 0.4), recipe, *position);
    EXPECT_EQ(position->evaluations_since_best, 1);
    EXPECT_EQ(position->best_for_patience, 0.6);
  }
  EXPECT_EQ(extended.best_figures.at("area"), 0.9);
}

}  // namespace
}  // namespace autotrain
