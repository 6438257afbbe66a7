#include "plan/smallest_inputs.h"

#include <torch/nn/modules/linear.h>

#include "support/run_workbench.h"
#include "support/support.h"

namespace autotrain {
namespace {

constexpr int64_t kImageSide = 64;

// Images of one size; as a model takes them that averages over pixels, or one that counts them.
void try_model(bool averages, double share) {
  torch::manual_seed(1);
  const TensorDataset data(torch::rand({8, 3, kImageSide, kImageSide}), torch::arange(8) % 3, 3);
  const auto net = std::make_shared<torch::nn::LinearImpl>(averages ? 3 : 3 * kImageSide * kImageSide, 3);
  auto task = make_supervised(
      net,
      [net, averages](const torch::Tensor& images) {
        return net->forward(averages ? images.mean({2, 3}) : images.flatten(1));
      },
      cross_entropy());
  Recipe recipe = test::small_recipe();
  recipe.data.augment.multi_scale = share;
  const auto bench = test::make_workbench(recipe, std::move(task), data);
  try_smallest_inputs(*bench);
}

TEST(SmallestInputs, AModelThatTakesThemGoesOn) {
  EXPECT_NO_THROW(try_model(true, 0.5));
  EXPECT_NO_THROW(try_model(false, 0));
}

TEST(SmallestInputs, AModelOfOneSizeIsRefusedBeforeItTrains) {
  const Error error = test::expect_error(ExitCode::kBadRecipe, [] { try_model(false, 0.5); });
  EXPECT_EQ(error.where(), "data.augment.multi_scale");
  EXPECT_TRUE(test::holds(error.problem(), "inputs that are 32 pixels smaller"));
}

TEST(SmallestInputs, AShareOfLessThanAStepIsRefused) {
  const Error error = test::expect_error(ExitCode::kBadRecipe, [] { try_model(true, 0.4); });
  EXPECT_TRUE(test::holds(error.problem(), "0.4 of 64 pixels are less than a step of 32"));
}

}  // namespace
}  // namespace autotrain
