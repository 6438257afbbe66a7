#include "optim/plateau.h"

#include <cmath>

#include "support/fixtures.h"
#include "support/support.h"

namespace autotrain {
namespace {

TEST(Plateau, FollowsPythonOnScriptedFigures) {
  for (const auto& c : test::fixture("plateau.json")) {
    const Plateau plateau{.figure = "loss",
                          .factor = c.at("factor"),
                          .patience = c.at("patience").get<int64_t>(),
                          .threshold = c.at("threshold"),
                          .cooldown = c.at("cooldown").get<int64_t>(),
                          .least = c.at("least")};
    PlateauState state;
    const auto values = c.at("values").get<std::vector<double>>(),
               factors = c.at("factors").get<std::vector<double>>();
    for (size_t i = 0; i < values.size(); ++i) {
      plateau.follow(values[i], c.at("lower_is_better"), state);
      EXPECT_DOUBLE_EQ(state.factor, factors[i]) << c.at("patience") << " evaluation " << i;
    }
  }
}

TEST(Plateau, WhatIsNotFiniteIsNoImprovement) {
  const Plateau plateau{.figure = "loss", .factor = 0.5, .patience = 2};
  PlateauState state;
  plateau.follow(1, true, state);
  for (const double value : {std::nan(""), -HUGE_VAL}) plateau.follow(value, true, state);
  EXPECT_EQ(state.factor, 0.5);
  EXPECT_EQ(state.best, 1);
}

TEST(Plateau, AnotherFigureHasABestOfItsOwn) {
  Plateau plateau{.figure = "loss", .factor = 0.5, .patience = 1};
  PlateauState state;
  plateau.follow(0.1, true, state);
  plateau.figure = "perplexity";
  plateau.follow(20, true, state);
  EXPECT_EQ(state.factor, 1);
  EXPECT_EQ(state.best, 20);
}

TEST(Plateau, NeverRisesToItsLeast) {
  const Plateau plateau{.figure = "loss", .factor = 0.1, .patience = 1, .least = 0.5};
  PlateauState state{.factor = 0.25};  // of a recipe that was changed
  plateau.follow(1, true, state);
  plateau.follow(1, true, state);
  EXPECT_EQ(state.factor, 0.25);
}

TEST(Plateau, IsWhatTheRecipeSays) {
  Recipe recipe;
  EXPECT_FALSE(plateau_of(recipe));
  recipe.evaluation.monitor = "accuracy";
  recipe.schedule.shape = {"plateau", {{"patience", int64_t{3}}}};
  EXPECT_EQ(plateau_of(recipe)->figure, "accuracy");
  EXPECT_EQ(plateau_of(recipe)->patience, 3);
  recipe.schedule.shape.parameters["figure"] = std::string("loss");
  EXPECT_EQ(plateau_of(recipe)->figure, "loss");
}

}  // namespace
}  // namespace autotrain
