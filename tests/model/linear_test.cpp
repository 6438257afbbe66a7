#include "model/linear.h"

#include <ATen/ATen.h>

#include <gtest/gtest.h>
#include "model/models.h"
#include "model/packed_product.h"
#include "model/rounding.h"

namespace autotrain {
namespace {

double relative_error(const torch::Tensor& a, const torch::Tensor& exact) {
  return ((a - exact).norm() / exact.norm()).item<double>();
}

TEST(Linear, IsTorchsUntilItIsQuantized) {
  torch::manual_seed(1);
  Linear ours(16, 8);
  torch::manual_seed(1);
  torch::nn::Linear theirs(16, 8);
  const torch::Tensor x = torch::randn({4, 16});
  EXPECT_TRUE(ours->forward(x).equal(theirs->forward(x)));
  EXPECT_EQ(ours->named_parameters().keys(), theirs->named_parameters().keys());
}

// Weights and inputs of eight bits are each off by at most half a step of 1 ÷ 127 and 1 ÷ 255 of their range.
TEST(Linear, QuantizedIsCloseAndNotEqual) {
  const torch::NoGradGuard no_gradients;
  torch::manual_seed(1);
  for (const bool bias : {true, false}) {
    Linear layer(torch::nn::LinearOptions(256, 64).bias(bias));
    const torch::Tensor x = torch::randn({3, 10, 256}), exact = layer->forward(x);
    layer->quantize();
    const double error = relative_error(layer->forward(x), exact);
    EXPECT_LT(error, 0.02);
    EXPECT_GT(error, 1e-5);
  }
}

// LibTorch's kernels load whole vectors, of which an input of a layer need not have any number.
TEST(Linear, WeightsOfEightBitsMayHaveAnyNumberOfInputs) {
  const torch::NoGradGuard no_gradients;
  torch::manual_seed(1);
  for (const auto type : {torch::kFloat32, torch::kBFloat16}) {
    for (const int64_t in : {1, 3, 8, 17, 40, 64, 100}) {
      const torch::Tensor weight = torch::randn({5, in}), bias = torch::randn({5}), x = torch::randn({7, in});
      const torch::Tensor exact = torch::nn::functional::linear(x, from_int8(to_int8(weight)), bias);
      const LinearProduct product = product_of_int8(weight.to(type), bias.to(type));
      EXPECT_LT(relative_error(product(x.to(type)).to(torch::kFloat32), exact),
                type == torch::kFloat32 ? 1e-5 : 0.03)
          << in;
    }
  }
}

TEST(Linear, EveryOutputHasItsOwnScale) {
  const torch::NoGradGuard no_gradients;
  torch::manual_seed(1);
  Linear layer(torch::nn::LinearOptions(64, 2).bias(false));
  layer->weight[0].mul_(1e-3);  // would round to nothing beside the other
  const torch::Tensor x = torch::randn({100, 64}), exact = layer->forward(x);
  layer->quantize();
  EXPECT_LT(relative_error(layer->forward(x).select(1, 0), exact.select(1, 0)), 0.02);
}

TEST(Linear, QuantizingAModelTakesItsLinearLayersAndDropsTheirWeights) {
  torch::manual_seed(1);
  const auto net =
      make_model({"mlp", {{"depth", int64_t{3}}, {"width", int64_t{32}}}}, {.input = {16}, .classes = 4});
  EXPECT_EQ(quantize_linear_layers(*net), 4);
  for (const auto& parameter : net->named_parameters()) {
    const bool is_weight = parameter.key().ends_with("weight");
    EXPECT_EQ(parameter.value().numel() == 0, is_weight) << parameter.key();
  }
  const torch::NoGradGuard no_gradients;
  EXPECT_TRUE(net->forward(torch::randn({2, 16})).isfinite().all().item<bool>());
}

// The kernels of LibTorch multiply by what rounding.h makes of the weights.
TEST(Linear, WeightsOfFewBitsMultiplyAsTheRoundedOnesDo) {
  const torch::NoGradGuard no_gradients;
  torch::manual_seed(1);
  for (const bool bias : {true, false}) {
    Linear eight(torch::nn::LinearOptions(128, 32).bias(bias)),
        four(torch::nn::LinearOptions(128, 32).bias(bias));
    const torch::Tensor x = torch::randn({3, 10, 128});
    const auto added = [&](const Linear& layer) { return bias ? layer->bias : torch::zeros({32}); };
    const torch::Tensor of_eight = at::matmul(x, from_int8(to_int8(eight->weight)).t()) + added(eight),
                        of_four = at::matmul(x, from_int4(to_int4(four->weight, 64)).t()) + added(four);
    eight->keep_int8();
    ASSERT_TRUE(four->keep_int4(64));
    EXPECT_EQ(eight->forward(x).sizes(), of_eight.sizes());
    EXPECT_LT(relative_error(eight->forward(x), of_eight), 1e-5);
    EXPECT_LT(relative_error(four->forward(x), of_four), 1e-5);
  }
}

TEST(Linear, AShapeWithoutAKernelOfFourBitsStaysAsItIs) {
  const torch::NoGradGuard no_gradients;
  Linear layer(64, 10);
  const torch::Tensor x = torch::randn({2, 64}), exact = layer->forward(x);
  EXPECT_FALSE(layer->keep_int4(64));
  EXPECT_TRUE(layer->forward(x).equal(exact));
}

}  // namespace
}  // namespace autotrain
