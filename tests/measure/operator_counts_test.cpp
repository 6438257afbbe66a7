#include "autotrain/operator_counts.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <gtest/gtest.h>
#include "model/linear.h"
#include "model/models.h"

namespace autotrain {
namespace {

// Counts one call of a module that nobody knows of.
template <class Holder>
ForwardCount count_of(Holder& module, const torch::Tensor& input, bool gradients = false) {
  const torch::AutoGradMode mode(gradients);
  return count_forward(*module, [&] { module->forward(input); });
}

const OperatorCount& product_in(const ForwardCount& counts) {
  for (const OperatorCount& each : counts.operators) {
    if (each.flops > 0) return each;
  }
  throw std::logic_error("no product was counted");
}

std::shared_ptr<Network> model(const Choice& choice, const SampleShape& shape) {
  torch::manual_seed(1);
  auto network = make_model(choice, shape);
  network->eval();
  return network;
}

TEST(OperatorCounts, ALinearLayerMultipliesEveryRowWithEveryWeight) {
  torch::nn::Linear layer(784, 256);
  const ForwardCount counts = count_of(layer, torch::ones({64, 784}));
  EXPECT_EQ(counts.flops(), 2.0 * 64 * 784 * 256);
  EXPECT_EQ(counts.weight_bytes(), 4 * (784 * 256 + 256));
  EXPECT_EQ(counts.bytes(), 4 * (64 * 784 + 784 * 256 + 256 + 64 * 256));
  EXPECT_EQ(product_in(counts).kind, OperatorKind::kLinear);
  EXPECT_EQ(product_in(counts).shape, "[64, 784] [784, 256]");
}

TEST(OperatorCounts, ALinearLayerOverSequencesCountsEveryToken) {
  torch::nn::Linear layer(32, 8);
  EXPECT_EQ(count_of(layer, torch::ones({3, 5, 32})).flops(), 2.0 * 15 * 32 * 8);
}

TEST(OperatorCounts, TheTimeOfAnOperatorIsItsOwn) {
  torch::nn::Linear layer(256, 256);
  const ForwardCount counts = count_of(layer, torch::ones({64, 256}));
  EXPECT_GT(product_in(counts).seconds, 0);
  EXPECT_LT(product_in(counts).seconds, counts.seconds);
  int waits = 0;
  const torch::NoGradGuard no_gradients;
  count_forward(
      *layer,
      [&] {
        layer->forward(torch::ones({1, 256})).relu();
      },
      [&] { ++waits; });
  EXPECT_GE(waits, 3) << "after the product, after the activation and at the end";
}

// What a backward pass really runs is what backward_flops says.
TEST(OperatorCounts, AnObservedBackwardPassComputesWhatTheForwardPassPredicts) {
  const auto check = [](auto layer, const torch::Tensor& input) {
    const ForwardCount forward = count_of(layer, input, /*gradients=*/true);
    const torch::AutoGradMode mode(true);
    const ForwardCount all = count_forward(*layer, [&] { layer->forward(input).sum().backward(); });
    EXPECT_GT(forward.backward_flops(), 0);
    EXPECT_EQ(all.flops(), forward.flops() + forward.backward_flops());
  };
  for (const bool of_input : {false, true}) {
    check(torch::nn::Linear(24, 8), torch::ones({4, 24}).set_requires_grad(of_input));
    check(torch::nn::Conv2d(torch::nn::Conv2dOptions(4, 6, 3).stride(2)),
          torch::ones({2, 4, 9, 9}).set_requires_grad(of_input));
    check(torch::nn::Conv2d(torch::nn::Conv2dOptions(4, 6, 3).groups(2).bias(false)),
          torch::ones({2, 4, 9, 9}).set_requires_grad(of_input));
    check(torch::nn::ConvTranspose2d(torch::nn::ConvTranspose2dOptions(4, 6, 3).stride(2)),
          torch::ones({2, 4, 5, 5}).set_requires_grad(of_input));
  }
}

TEST(OperatorCounts, AKernelCountsAsItselfWhateverItCalls) {
  torch::nn::Conv2d layer(torch::nn::Conv2dOptions(2, 3, 3));
  const torch::AutoGradMode mode(true);
  const ForwardCount counts = count_forward(*layer, [&] {
    at::max_pool2d(layer->forward(torch::ones({1, 2, 8, 8})), {2, 2}).sum().backward();
  });
  const auto backward =
      std::ranges::find(counts.operators, "aten::max_pool2d_with_indices_backward", &OperatorCount::name);
  ASSERT_NE(backward, counts.operators.end());
  EXPECT_GT(backward->seconds, 0);
  EXPECT_EQ(std::ranges::count(counts.operators, "aten::zero_", &OperatorCount::name), 0);
}

TEST(OperatorCounts, AConvolutionMultipliesItsWindowAtEveryPixelOfTheResult) {
  torch::nn::Conv2d layer(torch::nn::Conv2dOptions(3, 16, 5).stride(2).padding(2));
  const ForwardCount counts = count_of(layer, torch::ones({4, 3, 32, 32}));
  EXPECT_EQ(counts.flops(), 2.0 * 4 * 16 * 16 * 16 * 3 * 5 * 5);
  EXPECT_EQ(product_in(counts).kind, OperatorKind::kConvolution);
  EXPECT_EQ(counts.weight_bytes(), 4 * (16 * 3 * 5 * 5 + 16));
}

TEST(OperatorCounts, AGroupedConvolutionSeesOnlyItsGroupsChannels) {
  torch::nn::Conv2d layer(torch::nn::Conv2dOptions(8, 8, 3).padding(1).groups(8).bias(false));
  EXPECT_EQ(count_of(layer, torch::ones({2, 8, 10, 10})).flops(), 2.0 * 2 * 8 * 10 * 10 * 9);
}

TEST(OperatorCounts, ATransposedConvolutionSpreadsEveryPixelOfItsInput) {
  torch::nn::ConvTranspose2d layer(torch::nn::ConvTranspose2dOptions(6, 4, 2).stride(2).bias(false));
  EXPECT_EQ(count_of(layer, torch::ones({2, 6, 7, 7})).flops(), 2.0 * 2 * 6 * 7 * 7 * 4 * 2 * 2);
}

TEST(OperatorCounts, AttentionIsTwoProducts) {
  torch::nn::Linear none(1, 1);
  const torch::Tensor q = torch::ones({2, 4, 10, 16}), k = torch::ones({2, 4, 12, 16});
  const ForwardCount counts =
      count_forward(*none, [&] { at::scaled_dot_product_attention(q, k, k, {}, 0.0, false); });
  EXPECT_EQ(counts.flops(), 2.0 * 2 * 4 * 10 * 12 * (16 + 16));
  EXPECT_EQ(product_in(counts).kind, OperatorKind::kAttention);
}

TEST(OperatorCounts, ProductsOfActivationsAreCountedHoweverTheyAreWritten) {
  torch::nn::Linear none(1, 1);
  const torch::Tensor a = torch::ones({3, 4, 5}), b = torch::ones({3, 5, 6});
  const double flops = 2.0 * 3 * 4 * 5 * 6;
  EXPECT_EQ(count_forward(*none, [&] { at::matmul(a, b); }).flops(), flops);
  EXPECT_EQ(count_forward(*none, [&] { at::bmm(a, b); }).flops(), flops);
  EXPECT_EQ(count_forward(*none, [&] { at::einsum("bij,bjk->bik", {a, b}); }).flops(), flops);
  EXPECT_EQ(count_forward(*none, [&] { at::addmm(torch::ones({6}), a[0], b[0]); }).flops(), flops / 3);
  EXPECT_EQ(count_forward(*none, [&] { at::mm(a[0], b[0]); }).flops(), flops / 3);
}

// As the interpreter of TorchScript calls an operator: what others are still to take lies below its own.
torch::Tensor called_on_stack(const char* name, const torch::Tensor& below, std::vector<c10::IValue> own) {
  std::vector<c10::IValue> stack = {below};
  for (c10::IValue& value : own) stack.push_back(std::move(value));
  c10::Dispatcher::singleton().findSchemaOrThrow(name, "").callBoxed(&stack);
  return stack.back().toTensor();
}

TEST(OperatorCounts, OnAStackOnlyAnOperatorsOwnValuesAreCounted) {
  torch::nn::Linear layer(8, 8);
  const torch::NoGradGuard no_gradients;
  const torch::Tensor x = torch::ones({3, 8});
  const auto counted = [&](const char* name, std::vector<c10::IValue> own) {
    return count_forward(*layer, [&] { called_on_stack(name, x, std::move(own)); });
  };
  const ForwardCount by_name = count_of(layer, x),
                     by_stack = counted("aten::linear", {x, layer->weight, layer->bias});
  EXPECT_EQ(by_stack.flops(), by_name.flops());
  EXPECT_EQ(by_stack.bytes(), by_name.bytes());
  EXPECT_EQ(by_stack.weight_bytes(), by_name.weight_bytes());
  // Whose flag says that it is transposed.
  const torch::Tensor images = torch::ones({1, 6, 7, 7}), kernel = torch::ones({6, 4, 2, 2});
  const std::vector<int64_t> two = {2, 2}, none = {0, 0}, one = {1, 1};
  const ForwardCount transposed =
      counted("aten::convolution", {images, kernel, c10::IValue(), two, none, one, true, none, int64_t{1}});
  EXPECT_EQ(transposed.flops(), 2.0 * 6 * 7 * 7 * 4 * 2 * 2);
}

TEST(OperatorCounts, EightBitWeightsAreReadAsBytes) {
  Linear layer(128, 64);
  layer->quantize();
  const ForwardCount counts = count_of(layer, torch::ones({8, 128}));
  EXPECT_EQ(counts.flops(), 2.0 * 8 * 128 * 64);
  EXPECT_EQ(counts.weight_bytes(), 128 * 64);
}

TEST(OperatorCounts, WhatIsNoProductIsCountedInBytesOnly) {
  torch::nn::BatchNorm2d norm(8);
  norm->eval();
  const ForwardCount counts = count_of(norm, torch::ones({2, 8, 4, 4}));
  EXPECT_EQ(counts.flops(), 0);
  EXPECT_GE(counts.bytes(), 2 * 4 * 2 * 8 * 4 * 4);
  EXPECT_EQ(counts.weight_bytes(), 2 * 4 * 8);
}

TEST(OperatorCounts, ViewsMoveNothingAndLookUpsReadOnlyTheirRows) {
  torch::nn::Linear none(1, 1);
  const torch::Tensor x = torch::ones({4, 6});
  EXPECT_TRUE(count_forward(*none, [&] { x.view({24}).unsqueeze(0); }).operators.empty());
  torch::nn::Embedding table(1000, 16);
  const ForwardCount counts = count_of(table, torch::zeros({5}, torch::kInt64));
  EXPECT_EQ(counts.bytes(), 2 * 4 * 5 * 16 + 8 * 5);
  EXPECT_EQ(counts.weight_bytes(), 0);
}

TEST(OperatorCounts, BackwardIsOneMoreProductForEachGradient) {
  torch::nn::Linear layer(32, 8);
  const torch::Tensor data = torch::ones({4, 32});
  const double forward = 2.0 * 4 * 32 * 8;
  EXPECT_EQ(count_of(layer, data, true).backward_flops(), forward);  // data need no gradient
  EXPECT_EQ(count_of(layer, data.clone().requires_grad_(), true).backward_flops(), 2 * forward);
  EXPECT_EQ(count_of(layer, data, false).backward_flops(), 0);
}

TEST(OperatorCounts, SayWhichModuleOwnsTheWeights) {
  const auto mlp =
      model({"mlp", {{"depth", int64_t{1}}, {"width", int64_t{16}}}}, {.input = {8}, .classes = 4});
  const torch::NoGradGuard no_gradients;
  const torch::Tensor x = torch::ones({2, 8});
  const auto counts = count_forward(*mlp, [&] { mlp->forward(x); });
  EXPECT_EQ(counts.operators.front().module, "hidden0");
  EXPECT_EQ(counts.operators.back().module, "output");
}

// He et al. 2016: 4.1 billion multiplications and additions for an image of 224 × 224; torchvision says 4.09.
TEST(OperatorCounts, ResNet50HasThePublishedSizeAndWork) {
  const auto net = model({"resnet50", {}}, {.input = {3, 224, 224}, .classes = 1000});
  int64_t parameters = 0;
  for (const torch::Tensor& parameter : net->parameters()) parameters += parameter.numel();
  EXPECT_EQ(parameters, 25557032);
  const torch::NoGradGuard no_gradients;
  const auto counts = count_forward(*net, [&] { net->forward(torch::zeros({1, 3, 224, 224})); });
  EXPECT_NEAR(counts.flops() / 2, 4.09e9, 0.005e9);
}

// Twelve products of width² for each token and layer, attention, and the output layer.
TEST(OperatorCounts, ATransformerHasTheWorkOfItsFormula) {
  constexpr int64_t kLayers = 2, kWidth = 32, kLength = 10, kVocabulary = 50;
  const auto net = model({"transformer", {{"layers", kLayers}, {"width", kWidth}, {"heads", int64_t{4}}}},
                         {.input = {kLength}, .classes = kVocabulary, .vocabulary = kVocabulary});
  const torch::NoGradGuard no_gradients;
  const auto counts = count_forward(*net, [&] { net->forward(torch::zeros({3, kLength}, torch::kInt64)); });
  const double tokens = 3 * kLength;
  const double expected =
      tokens * (kLayers * (24.0 * kWidth * kWidth + 4.0 * kLength * kWidth) + 2.0 * kWidth * kVocabulary);
  EXPECT_EQ(counts.flops(), expected);
}

}  // namespace
}  // namespace autotrain
