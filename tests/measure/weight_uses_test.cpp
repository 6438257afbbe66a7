#include "measure/weight_uses.h"

#include <ATen/ATen.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>

#include <algorithm>

#include <gtest/gtest.h>

namespace autotrain {
namespace {

// A module with weights of its own, under whatever names a test gives them.
struct Bare : torch::nn::Module {
  torch::Tensor add(const std::string& name, c10::IntArrayRef shape) {
    return register_parameter(name, torch::rand(shape), /*requires_grad=*/false);
  }
};

std::vector<WeightUse> uses_of(const torch::nn::Module& module, const std::function<void()>& forward) {
  const torch::NoGradGuard no_gradients;
  return count_weights(module, forward).uses;
}

// What became of one weight; of its uses there has to be one alone.
WeightUse use_of(const std::vector<WeightUse>& uses, const std::string& name) {
  EXPECT_EQ(std::ranges::count(uses, name, &WeightUse::name), 1) << name;
  const auto found = std::ranges::find(uses, name, &WeightUse::name);
  return found == uses.end() ? WeightUse{} : *found;
}

TEST(WeightUses, AMatrixThatIsOnlyAddedIsNotMultipliedByEvenBesideOneThatIs) {
  Bare module;
  const torch::Tensor weight = module.add("weight", {6, 16}), places = module.add("places", {4, 4});
  const auto uses = uses_of(module, [&] {
    at::linear((torch::ones({2, 4, 4}) + places).flatten(1), weight);
  });
  EXPECT_EQ(use_of(uses, "weight").kind, OperatorKind::kLinear);
  EXPECT_EQ(use_of(uses, "weight").bytes, 4 * 6 * 16);
  EXPECT_EQ(use_of(uses, "places").kind, OperatorKind::kOther);
  EXPECT_EQ(use_of(uses, "places").bytes, 4 * 16);
}

TEST(WeightUses, AWeightOfSeveralNamesGoesByTheFirst) {
  torch::nn::Embedding table(10, 8);
  torch::nn::Module module;
  module.register_module("table", table.ptr());
  module.register_parameter("weight_again", table->weight);
  const auto uses = uses_of(module, [&] {
    const torch::Tensor rows = table->forward(torch::zeros({3}, torch::kInt64));
    at::linear(rows, module.named_parameters()["weight_again"]);
  });
  const std::string first = module.named_parameters()[0].key();
  ASSERT_EQ(uses.size(), 2U);
  EXPECT_EQ(uses[0].name, first);
  EXPECT_EQ(uses[0].bytes, 0) << "rows are looked up";
  EXPECT_EQ(uses[1].name, first);
  EXPECT_EQ(uses[1].kind, OperatorKind::kLinear);
}

TEST(WeightUses, EveryReadCounts) {
  torch::nn::Linear layer(8, 8);
  const auto uses = uses_of(*layer, [&] { layer->forward(layer->forward(torch::ones({1, 8}))); });
  EXPECT_EQ(std::ranges::count(uses, "weight", &WeightUse::name), 2);
}

TEST(WeightUses, TellWhichDimensionIsThatOfTheInputs) {
  Bare module;
  const torch::Tensor in_out = module.add("in_out", {8, 5}), out_in = module.add("out_in", {5, 8}),
                      square = module.add("square", {8, 8}), turned = module.add("turned", {8, 8});
  const torch::Tensor x = torch::ones({3, 8});
  const auto uses = uses_of(module, [&] {
    at::matmul(x, in_out);
    at::linear(x, out_in);
    at::addmm(torch::zeros({8}), x, square);
    at::matmul(x, turned.t());
  });
  EXPECT_TRUE(use_of(uses, "in_out").inputs_first);
  EXPECT_FALSE(use_of(uses, "out_in").inputs_first);
  EXPECT_TRUE(use_of(uses, "square").inputs_first);
  EXPECT_FALSE(use_of(uses, "turned").inputs_first);
}

// Autocast, and the graphs of a model file, multiply by copies in another type.
TEST(WeightUses, ACopyInHalfPrecisionIsTheWeight) {
  Bare module;
  const torch::Tensor weight = module.add("weight", {6, 16}), first = module.add("first", {16, 6});
  const torch::Tensor x = torch::ones({2, 16});
  const auto uses = uses_of(module, [&] {
    const torch::Tensor half = x.to(torch::kBFloat16);
    at::linear(half, weight.to(torch::kBFloat16));
    at::matmul(half, first.to(torch::kBFloat16));
  });
  EXPECT_EQ(use_of(uses, "weight").kind, OperatorKind::kLinear);
  EXPECT_FALSE(use_of(uses, "weight").inputs_first);
  EXPECT_EQ(use_of(uses, "first").kind, OperatorKind::kLinear);
  EXPECT_TRUE(use_of(uses, "first").inputs_first);
}

TEST(WeightUses, OfTransposedConvolutionsTheInputsComeFirst) {
  torch::nn::ConvTranspose2d layer(torch::nn::ConvTranspose2dOptions(6, 4, 2).bias(false));
  torch::nn::Conv2d other(torch::nn::Conv2dOptions(6, 4, 2).bias(false));
  const torch::Tensor x = torch::ones({1, 6, 3, 3});
  const WeightUse use = use_of(uses_of(*layer, [&] { layer->forward(x); }), "weight");
  EXPECT_EQ(use.kind, OperatorKind::kConvolution);
  EXPECT_TRUE(use.inputs_first);
  EXPECT_FALSE(use_of(uses_of(*other, [&] { other->forward(x); }), "weight").inputs_first);
}

TEST(WeightUses, ALayerThatRecursMultipliesByBothOfItsWeights) {
  constexpr int64_t kInputs = 12, kStates = 20, kLength = 7, kSequences = 3;
  torch::nn::LSTM layer(kInputs, kStates);
  layer->eval();
  const torch::NoGradGuard no_gradients;
  const WeightCount found = count_weights(*layer, [&] {
    layer->forward(torch::ones({kLength, kSequences, kInputs}));
  });
  EXPECT_EQ(found.counts.flops(), 2.0 * kLength * kSequences * 4 * kStates * (kInputs + kStates));
  for (const char* const name : {"weight_ih_l0", "weight_hh_l0"}) {
    const auto multiplied = std::ranges::find_if(found.uses, [&](const WeightUse& use) {
      return use.name == name && use.kind == OperatorKind::kLinear && !use.inputs_first;
    });
    EXPECT_NE(multiplied, found.uses.end()) << name;
  }
}

}  // namespace
}  // namespace autotrain
