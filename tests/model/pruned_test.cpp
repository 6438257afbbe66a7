#include "model/pruned.h"

#include <ATen/ATen.h>

#include <gtest/gtest.h>
#include "model/models.h"
#include "support/support.h"

namespace autotrain {
namespace {

std::shared_ptr<Network> small_mlp() {
  return make_model({"mlp", {{"depth", int64_t{1}}, {"width", int64_t{8}}}}, {.input = {4}, .classes = 3});
}

TEST(Pruned, ModelTakesTheShapeOfTheFile) {
  const auto net = small_mlp();
  const CompressedWeights weights{.tensors = {{"hidden0.weight", torch::ones({5, 4})},
                                              {"hidden0.bias", torch::ones({5})},
                                              {"output.weight", torch::ones({3, 5})}},
                                  .kept = {{"hidden0", torch::arange(5)}}};
  take_pruned_shapes(weights, *net);
  EXPECT_EQ(net->named_parameters()["hidden0.weight"].sizes(), torch::IntArrayRef({5, 4}));
  EXPECT_EQ(net->forward(torch::ones({2, 4})).sizes(), torch::IntArrayRef({2, 3}));
  net->forward(torch::ones({2, 4})).sum().backward();
  EXPECT_EQ(net->named_parameters()["output.weight"].grad().sizes(), torch::IntArrayRef({3, 5}));
}

TEST(Pruned, AFileOfAnotherModelIsRefusedAndOneThatIsNotPrunedChangesNothing) {
  const auto net = small_mlp();
  CompressedWeights weights{.tensors = {{"hidden0.weight", torch::ones({9, 4})}}};
  take_pruned_shapes(weights, *net);
  EXPECT_EQ(net->named_parameters()["hidden0.weight"].size(0), 8);
  weights.kept = {{"hidden0", torch::arange(9)}};
  const Error error = test::expect_error(ExitCode::kBadData, [&] { take_pruned_shapes(weights, *net); });
  EXPECT_TRUE(test::holds(error.what(), "hidden0.weight [9, 4]"));
}

TEST(Pruned, NoGradientReachesAZeroThatStaysInAnyMicroBatch) {
  const auto net = small_mlp();
  const torch::Tensor stays = torch::rand({8, 4}).gt(0.5);
  keep_pruned_zeros({.stays = {{"hidden0.weight", stays}}}, *net);
  torch::manual_seed(1);
  for (int micro_batch = 0; micro_batch < 2; ++micro_batch)
    net->forward(torch::randn({16, 4})).square().sum().backward();
  const torch::Tensor gradient = net->named_parameters()["hidden0.weight"].grad();
  EXPECT_TRUE(gradient.masked_select(stays.logical_not()).eq(0).all().item<bool>());
  EXPECT_TRUE(gradient.masked_select(stays).ne(0).any().item<bool>());
}

TEST(Pruned, AdaptersWouldFillTheZeros) {
  const auto net = small_mlp();
  net->adapt({.match = {"hidden0"}, .rank = 2});
  const Error error = test::expect_error(ExitCode::kBadRecipe, [&] {
    keep_pruned_zeros({.stays = {{"hidden0.weight", torch::ones({8, 4}, torch::kBool)}}}, *net);
  });
  EXPECT_TRUE(test::holds(error.what(), "hidden0.weight"));
}

}  // namespace
}  // namespace autotrain
