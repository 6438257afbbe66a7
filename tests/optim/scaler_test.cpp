#include "optim/scaler.h"

#include "support/fixtures.h"
#include "support/support.h"

namespace autotrain {
namespace {

TEST(GradScaler, FollowsPythonOnScriptedInfinities) {
  const auto script = test::fixture("scaler.json");
  ScalerRecipe recipe;
  recipe.initial_scale = script.at("initial_scale");
  recipe.growth_interval = script.at("growth_interval");
  GradScaler scaler(recipe, true, torch::kCPU);
  const auto infinite = script.at("infinite").get<std::vector<bool>>();
  const auto scales = script.at("scales").get<std::vector<double>>();
  for (size_t i = 0; i < infinite.size(); ++i) {
    scaler.update(torch::full({}, infinite[i] ? 1.0f : 0.0f));
    EXPECT_EQ(scaler.scale().item<double>(), scales[i]) << "update " << i;
  }
}

TEST(GradScaler, NeverFallsBelowItsFloor) {
  ScalerRecipe recipe;
  recipe.initial_scale = 16;
  recipe.min_scale = 4;
  GradScaler scaler(recipe, true, torch::kCPU);
  for (int i = 0; i < 10; ++i) scaler.update(torch::ones({}));
  EXPECT_EQ(scaler.scale().item<double>(), 4);
}

TEST(GradScaler, StaysAtOneWhenItIsNotDynamic) {
  GradScaler scaler({}, false, torch::kCPU);
  for (int i = 0; i < 10; ++i) scaler.update(torch::full({}, i % 2 == 0 ? 1.0f : 0.0f));
  EXPECT_EQ(scaler.scale().item<double>(), 1);
}

}  // namespace
}  // namespace autotrain
