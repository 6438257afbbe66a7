#include "compress/smaller_file.h"

#include <ATen/ATen.h>

#include <gtest/gtest.h>
#include "compress/compressed_subject.h"
#include "model/models.h"
#include "support/support.h"

namespace autotrain {
namespace {

using test::expect_error;
using test::holds;

CompressionMethod method_of(const std::string& words) {
  return parse_methods(words).at(0);
}

// A transformer whose heads share keys and values in so many groups.
CompressionSource transformer(int64_t kv_heads) {
  CompressionSource source;
  source.model = {
      "transformer",
      {{"width", int64_t{16}}, {"layers", int64_t{2}}, {"heads", int64_t{4}}, {"kv_heads", kv_heads}}};
  torch::manual_seed(1);
  const auto model = make_model(source.model, {{12}, 17, 17});
  for (const auto& item : model->named_parameters())
    source.tensors.push_back({item.key(), item.value().detach()});
  return source;
}

TEST(SmallerFile, WhereNothingCanGoPruningIsRefused) {
  const CompressionSource one_group = transformer(1);
  Error error =
      expect_error(ExitCode::kBadRecipe, [&] { smaller_tensors(one_group, method_of("heads:0.9")); });
  EXPECT_TRUE(holds(error.problem(), "each layer has 1 group of heads, of which none can go"));
  error =
      expect_error(ExitCode::kBadRecipe, [&] { smaller_tensors(one_group, method_of("channels:0.001")); });
  EXPECT_TRUE(holds(error.problem(), "no layer has more than 64 outputs, and a share of 0.001"));
}

TEST(SmallerFile, WhatWentIsSaidInWholeOutputs) {
  const CompressionSource two_groups = transformer(2);
  const CompressionMethod heads = method_of("heads:0.99"), channels = method_of("channels:0.25");
  EXPECT_EQ(taken_out(two_groups, heads, smaller_tensors(two_groups, heads)),
            "2 of 4 groups of heads of 2 layers");
  EXPECT_EQ(changed_weights(two_groups, heads, smaller_tensors(two_groups, heads)), 2);
  EXPECT_EQ(taken_out(two_groups, channels, smaller_tensors(two_groups, channels)),
            "32 of 128 outputs of 2 layers");
}

// A module with weights as modules from PyTorch have them.
struct Strange : torch::nn::Module {
  torch::Tensor weight = register_parameter("weight", torch::rand({8, 16})),
                places = register_parameter("places", torch::rand({4, 4})),
                in_out = register_parameter("in_out", torch::rand({8, 4})),
                table = register_parameter("table", torch::rand({32, 4}));

  torch::Tensor forward(const torch::Tensor& x) const {
    const torch::Tensor inner = at::linear((x + places).flatten(1), weight);
    return at::linear(at::matmul(inner, in_out), table) +
           at::embedding(table, torch::zeros({1}, torch::kInt64)).sum();
  }
};

CompressionSource sorted(const Strange& module) {
  const torch::NoGradGuard no_gradients;
  CompressionSource source;
  sort_weights(module, count_weights(module, [&] { module.forward(torch::ones({1, 4, 4})); }).uses, source);
  for (const auto& item : module.named_parameters())
    source.tensors.push_back({item.key(), item.value().detach()});
  return source;
}

TEST(SmallerFile, OnlyWhatIsMultipliedByChangesAndTheRestIsNamed) {
  const CompressionSource source = sorted(*std::make_shared<Strange>());
  EXPECT_EQ(source.products, (std::set<std::string>{"in_out", "table", "weight"}));
  EXPECT_EQ(source.inputs_first, (std::set<std::string>{"in_out"}));
  EXPECT_EQ(left_whole(source, method_of("int8-weights")), (std::vector<std::string>{"places"}));
}

TEST(SmallerFile, TwoOfFourInputsGoAndNoOutputs) {
  const CompressionSource source = sorted(*std::make_shared<Strange>());
  const CompressionMethod sparse = method_of("2:4");
  EXPECT_EQ(left_whole(source, sparse), (std::vector<std::string>{"places", "in_out"}));
  for (const NamedTensor& item : smaller_tensors(source, sparse))
    EXPECT_FALSE(item.name.starts_with("in_out.") || item.name.starts_with("places.")) << item.name;
}

TEST(SmallerFile, AMethodThatWouldChangeNothingIsRefused) {
  CompressionSource source;
  source.tensors = {{"one.weight", torch::rand({7, 3})}, {"two.weight", torch::rand({64, 1, 1, 1})}};
  source.products = {"one.weight", "two.weight"};
  const Error sparse = expect_error(ExitCode::kBadRecipe, [&] { smaller_tensors(source, method_of("2:4")); });
  EXPECT_TRUE(holds(sparse.problem(), "changes no weight of this model"));
  EXPECT_NO_THROW(smaller_tensors(source, method_of("int8-weights")));
  source.tensors.erase(source.tensors.begin());
  expect_error(ExitCode::kBadRecipe, [&] { smaller_tensors(source, method_of("int8-weights")); });
  EXPECT_EQ(smaller_tensors(source, {}).size(), 1u) << "the weights as they are";
}

TEST(SmallerFile, AWeightThatAScaleWouldMakeLargerStaysWhole) {
  CompressionSource source;
  source.tensors = {{"one.weight", torch::rand({64, 1, 1, 1})}, {"two.weight", torch::rand({64, 2})}};
  source.products = {"one.weight", "two.weight"};
  for (const char* const words : {"int8-weights", "int4-weights:128"}) {
    const CompressionMethod method = method_of(words);
    EXPECT_EQ(left_whole(source, method), (std::vector<std::string>{"one.weight"})) << words;
    EXPECT_LT(product_bytes(source, smaller_tensors(source, method)).at("two.weight"), 64 * 2 * 4) << words;
  }
}

}  // namespace
}  // namespace autotrain
