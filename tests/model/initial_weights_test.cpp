#include "model/initial_weights.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include <fstream>

#include "checkpoint/safetensors.h"
#include "model/models.h"
#include "support/support.h"

namespace autotrain {
namespace {

struct Net final : Network {
  torch::nn::Linear first = register_module("first", torch::nn::Linear(4, 3));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(3));
  torch::nn::Linear fc;
  explicit Net(int64_t classes) : fc(register_module("fc", torch::nn::Linear(3, classes))) {}
  torch::Tensor forward(torch::Tensor x) override { return fc(norm(first(x))); }
};

std::map<std::string, torch::Tensor> tensors_of(const torch::nn::Module& module) {
  std::map<std::string, torch::Tensor> tensors;
  for (const auto& item : module.named_parameters()) tensors[item.key()] = item.value().detach();
  for (const auto& item : module.named_buffers()) tensors[item.key()] = item.value();
  return tensors;
}

class InitialWeights : public testing::Test {
 protected:
  std::string write(const std::map<std::string, torch::Tensor>& tensors,
                    const std::string& name = "w.safetensors") {
    std::vector<NamedTensor> list;
    for (const auto& [key, tensor] : tensors) list.push_back({key, tensor});
    write_safetensors(folder_ / name, list);
    return (folder_ / name).string();
  }

  // The weights of a trained net, whose values nobody draws.
  std::map<std::string, torch::Tensor> trained(int64_t classes) {
    auto tensors = tensors_of(Net(classes));
    for (auto& [name, tensor] : tensors) tensor = torch::full_like(tensor, 7);
    return tensors;
  }

  test::TemporaryFolder folder_;
};

TEST_F(InitialWeights, HalfPrecisionBecomesTheModelsOwnType) {
  auto tensors = trained(2);
  for (auto& [name, tensor] : tensors) {
    if (tensor.is_floating_point()) tensor = tensor.to(torch::kBFloat16);
  }
  Net net(2);
  const WeightsTaken taken = take_weights({.file = write(tensors)}, net);
  EXPECT_EQ(taken.taken.size(), tensors.size());
  for (const auto& [name, tensor] : tensors_of(net)) {
    EXPECT_TRUE(tensor.eq(7).all().item<bool>()) << name;
    EXPECT_NE(tensor.scalar_type(), torch::kBFloat16) << name;
  }
}

TEST_F(InitialWeights, AHeadForOtherClassesIsDrawnWhereThatIsAsked) {
  const std::string file = write(trained(10));
  Net net(2);
  const torch::Tensor drawn = net.fc->weight.detach().clone();
  const Error error = test::expect_error(ExitCode::kBadData, [&] { take_weights({.file = file}, net); });
  EXPECT_TRUE(test::holds(error.what(), "of another shape: fc.bias [10] → [2], fc.weight [10, 3] → [2, 3]"));
  EXPECT_FALSE(net.first->weight.eq(7).any().item<bool>())
      << "nothing is taken when something does not match";

  for (const WeightsRecipe& recipe : {WeightsRecipe{.file = file, .skip = {"fc.*"}},
                                      WeightsRecipe{.file = file, .shapes = Unmatched::kKeep}}) {
    const WeightsTaken taken = take_weights(recipe, net);
    EXPECT_EQ(taken.taken.size(), 7U);
    EXPECT_EQ(taken.skipped.size() + taken.reshaped.size(), 2U);
    EXPECT_TRUE(test::holds(describe(taken), "took 7 tensors; "));
    EXPECT_TRUE(net.first->weight.eq(7).all().item<bool>());
    EXPECT_TRUE(net.fc->weight.equal(drawn));
  }
}

TEST_F(InitialWeights, NamesOfTheFileAreTurnedIntoTheModels) {
  std::map<std::string, torch::Tensor> tensors;
  for (const auto& [name, tensor] : trained(2)) tensors["backbone.model." + name] = tensor;
  Net net(2);
  take_weights(
      {.file = write(tensors), .rename = {R"(head\.(.*) -> fc.$1)", R"(backbone\.model\.(.*) -> $1)"}}, net);
  EXPECT_TRUE(net.fc->weight.eq(7).all().item<bool>());
  EXPECT_TRUE(net.norm->running_mean.eq(7).all().item<bool>());
}

TEST_F(InitialWeights, SeveralFilesBesideAnIndex) {
  const auto all = trained(2);
  std::map<std::string, torch::Tensor> one, other;
  std::string map;
  for (const auto& [name, tensor] : all) {
    const bool first = name.starts_with("first");
    (first ? one : other)[name] = tensor;
    map += (map.empty() ? "\"" : ", \"") + name + "\": \"" + (first ? "a" : "b") + ".safetensors\"";
  }
  write(one, "a.safetensors"), write(other, "b.safetensors");
  std::ofstream(folder_ / "model.safetensors.index.json") << "{\"weight_map\": {" + map + "}}";
  Net net(2);
  EXPECT_EQ(take_weights({.file = (folder_ / "model.safetensors.index.json").string()}, net).taken.size(),
            all.size());
  std::ofstream(folder_ / "none.json") << "{}";
  test::expect_error(ExitCode::kBadData,
                     [&] { take_weights({.file = (folder_ / "none.json").string()}, net); });
}

TEST_F(InitialWeights, WhatDoesNotMatchIsNamed) {
  auto lacking = trained(2);
  lacking.erase("norm.weight");
  const std::string file = write(lacking);
  Net net(2);
  const Error missing = test::expect_error(ExitCode::kBadData, [&] { take_weights({.file = file}, net); });
  EXPECT_TRUE(test::holds(missing.what(), "not in the file: norm.weight"));
  EXPECT_EQ(take_weights({.file = file, .missing = Unmatched::kKeep}, net).missing,
            std::vector<std::string>{"norm.weight"});

  auto more = trained(2);
  more["extra.weight"] = torch::zeros({1});
  const Error left = test::expect_error(
      ExitCode::kBadData, [&] { take_weights({.file = write(more, "more.safetensors")}, net); });
  EXPECT_TRUE(test::holds(left.what(), "only in the file: extra.weight"));

  const Error pattern = test::expect_error(ExitCode::kBadRecipe,
                                           [&] { take_weights({.file = file, .skip = {"cf.weight"}}, net); });
  EXPECT_TRUE(test::holds(pattern.what(), "did you mean \"fc.weight\"?"));
  const Error expression = test::expect_error(
      ExitCode::kBadRecipe, [&] { take_weights({.file = file, .rename = {"(a -> b"}}, net); });
  EXPECT_TRUE(test::holds(expression.what(), "is no regular expression"));
}

TEST(Freezing, FrozenParametersHaveNoGradientAndFrozenStatisticsStay) {
  Net net(2);
  net.freeze({"first.*", "norm.*"});
  net.train();
  const torch::Tensor before = net.norm->running_mean.clone();
  net.forward(torch::randn({8, 4})).sum().backward();
  EXPECT_FALSE(net.first->weight.grad().defined());
  EXPECT_TRUE(net.fc->weight.grad().defined());
  EXPECT_TRUE(net.norm->running_mean.equal(before));
  net.eval(), net.train();
  EXPECT_FALSE(net.norm->is_training());
  EXPECT_TRUE(net.fc->is_training());
}

TEST(Freezing, StatisticsGoOnWhereOnlySomeParametersOfAPartAreFrozen) {
  Net net(2);
  net.freeze({"norm.weight"});
  EXPECT_TRUE(net.norm->is_training());
}

TEST(Freezing, PatternsThatMatchNothingAndFreezingAllAreRefused) {
  Net net(2);
  const Error error = test::expect_error(ExitCode::kBadRecipe, [&] { net.freeze({"frist.weight"}); });
  EXPECT_TRUE(test::holds(error.what(), "did you mean \"first.weight\"?"));
  test::expect_error(ExitCode::kBadRecipe, [&] { net.freeze({"*"}); });
}

}  // namespace
}  // namespace autotrain
