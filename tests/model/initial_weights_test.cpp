#include "model/initial_weights.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "checkpoint/safetensors.h"
#include "model/compressed_file.h"
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

TEST_F(InitialWeights, NumbersThatAreNotFiniteAreRefusedInParametersAlone) {
  Net net(2);
  auto tensors = trained(2);
  tensors["norm.running_mean"][1] = -std::numeric_limits<float>::infinity();  // as masks hold
  EXPECT_NO_THROW(take_weights({.file = write(tensors)}, net));
  tensors["fc.weight"][0][1] = std::numeric_limits<float>::quiet_NaN();
  const std::string file = write(tensors);
  const Error error = test::expect_error(ExitCode::kBadData, [&] { take_weights({.file = file}, net); });
  EXPECT_TRUE(
      test::holds(error.what(), "w.safetensors: \"fc.weight\" has 1 of 6 numbers that are not finite"));
  EXPECT_NO_THROW(take_weights({.file = file, .skip = {"fc.weight"}}, *std::make_unique<Net>(2)));

  tensors["fc.weight"] = torch::full({2, 3}, 1e300, torch::kFloat64);
  EXPECT_TRUE(test::holds(
      test::expect_error(ExitCode::kBadData, [&] { take_weights({.file = write(tensors)}, net); }).what(),
      "has 6 of 6 numbers that are not finite as Float"));
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

TEST_F(InitialWeights, NoTwoTensorsOfAFileBecomeOneOfTheModel) {
  std::map<std::string, torch::Tensor> tensors;
  for (const auto& [name, tensor] : trained(2)) {
    tensors["model." + name] = tensor;
    tensors["old_model." + name] = tensor + 1;
  }
  Net net(2);
  const std::string file = write(tensors);
  EXPECT_TRUE(test::holds(
      test::expect_error(ExitCode::kBadRecipe,
                         [&] { take_weights({.file = file, .rename = {R"([^.]*\.(.*) -> $1)"}}, net); })
          .what(),
      R"("model.fc.bias" and "old_model.fc.bias")"));
  EXPECT_FALSE(net.fc->weight.eq(7).any().item<bool>()) << "nothing was read";
  const WeightsTaken taken = take_weights(
      {.file = file,
       .skip = {"first.*"},
       .rename = {R"(model\.(.*) -> $1)", R"(old_model\.first -> x)", R"(old_model\.(.*) -> first.$1)"}},
      net);
  EXPECT_EQ(taken.idle_rules, std::vector<std::string>{R"(old_model\.first -> x)"});
}

// One weight under two names, as language models tie what looks tokens up and what predicts them.
struct TiedNet final : Network {
  torch::Tensor in = register_parameter("in", torch::randn({4, 4}));
  TiedNet() { register_parameter("out", in); }
  torch::Tensor forward(torch::Tensor x) override { return x.mm(in).mm(in.t()); }
};

TEST_F(InitialWeights, AWeightThatTheModelTiesHasOneValueInTheFile) {
  const torch::Tensor weight = torch::full({4, 4}, 7.0);
  TiedNet net;
  take_weights({.file = write({{"in", weight}, {"out", weight.clone()}})}, net);
  EXPECT_TRUE(net.in.eq(7).all().item<bool>());
  const std::string apart = write({{"in", weight}, {"out", weight + 1}}, "apart.safetensors");
  EXPECT_TRUE(
      test::holds(test::expect_error(ExitCode::kBadData, [&] { take_weights({.file = apart}, net); }).what(),
                  R"(has other numbers in "out" than in "in")"));
  take_weights({.file = apart, .skip = {"in"}}, net);
  EXPECT_TRUE(net.in.eq(8).all().item<bool>());
}

TEST_F(InitialWeights, AFileOfWhichNothingIsTakenIsRefused) {
  Net net(2);
  const WeightsRecipe recipe{.file = write({}), .missing = Unmatched::kKeep, .shapes = Unmatched::kKeep};
  EXPECT_TRUE(test::holds(test::expect_error(ExitCode::kBadData, [&] { take_weights(recipe, net); }).what(),
                          "holds no tensor that this recipe's model takes"));
}

// A net of two classes in two shards, all of whose tensors are 7, beside their index.
class WeightShards : public InitialWeights {
 protected:
  WeightShards() {
    for (const auto& [name, tensor] : trained(2)) {
      (name.starts_with("first") ? first_ : other_)[name] = tensor;
      map_[name] =
          name.starts_with("first") ? "m-00001-of-00002.safetensors" : "m-00002-of-00002.safetensors";
    }
    write(first_, "m-00001-of-00002.safetensors");
    write(other_, "m-00002-of-00002.safetensors");
    write_index();
  }

  void write_index() {
    folder_.write("m.safetensors.index.json", nlohmann::json{{"weight_map", map_}}.dump());
  }

  std::string index() const { return (folder_ / "m.safetensors.index.json").string(); }

  // Whether the index is refused, and not a tensor of the net was filled.
  std::string refusal(ExitCode code) const {
    Net net(2);
    const Error error = test::expect_error(code, [&] { take_weights({.file = index()}, net); });
    EXPECT_FALSE(net.norm->running_mean.eq(7).any().item<bool>());
    EXPECT_FALSE(net.first->weight.eq(7).any().item<bool>());
    return error.what();
  }

  std::map<std::string, torch::Tensor> first_, other_;
  std::map<std::string, std::string> map_;
};

TEST_F(WeightShards, AreReadByTheirIndexOrByTheirFolder) {
  for (const std::string& named : {index(), folder_.path().string()}) {
    Net net(2);
    EXPECT_EQ(take_weights({.file = named}, net).taken.size(), map_.size());
    for (const auto& [name, tensor] : tensors_of(net)) EXPECT_TRUE(tensor.eq(7).all().item<bool>()) << name;
  }
}

TEST_F(WeightShards, ATensorThatTheIndexPromisesAndTheShardLacksIsNamed) {
  map_["fc.scale"] = "m-00002-of-00002.safetensors";
  write_index();
  const std::string said = refusal(ExitCode::kBadData);
  EXPECT_TRUE(test::holds(said, "m-00002-of-00002.safetensors"));
  EXPECT_TRUE(test::holds(said, "not in the file: fc.scale"));
}

TEST_F(WeightShards, ATensorThatTheIndexDoesNotNameOrHasElsewhereIsNamed) {
  map_.erase("fc.bias");
  write_index();
  EXPECT_TRUE(test::holds(refusal(ExitCode::kBadData), "only in the file: fc.bias"));
  map_["fc.bias"] = "m-00002-of-00002.safetensors";
  write_index();
  first_["fc.bias"] = torch::zeros({2});
  write(first_, "m-00001-of-00002.safetensors");
  const std::string said = refusal(ExitCode::kBadData);
  EXPECT_TRUE(test::holds(said, "m-00001-of-00002.safetensors"));
  EXPECT_TRUE(test::holds(said, "only in the file: fc.bias"));
}

// Of tied tensors a shard holds one, and names the others in its metadata.
TEST_F(WeightShards, OfTiedTensorsOneIsEnough) {
  std::vector<NamedTensor> tensors = {{"fc.copy", other_.at("fc.weight")}};
  for (const auto& [name, tensor] : other_) tensors.push_back({name, tensor});
  write_safetensors(folder_ / "m-00002-of-00002.safetensors", tensors);  // under the first name alone
  map_["fc.copy"] = "m-00002-of-00002.safetensors";
  write_index();
  EXPECT_EQ(WeightsFile(index()).list().size(), map_.size() - 1);
}

TEST_F(WeightShards, OneThatIsNotThereIsNamedWithWhatItHolds) {
  std::filesystem::remove(folder_ / "m-00001-of-00002.safetensors");
  const std::string said = refusal(ExitCode::kMissingFile);
  EXPECT_TRUE(test::holds(said, "m-00001-of-00002.safetensors"));
  EXPECT_TRUE(test::holds(said, "first.bias, first.weight"));
}

TEST_F(WeightShards, SmallerWeightsAreNoShard) {
  std::vector<NamedTensor> tensors;
  for (const auto& [name, tensor] : other_) tensors.push_back({name, tensor});
  write_compressed(folder_ / "m-00002-of-00002.safetensors", tensors, "some");
  EXPECT_TRUE(test::holds(refusal(ExitCode::kBadData), "smaller weights"));
}

// A run that goes on needs no first weights: what an index says of pruned ones is nothing, whatever is left
// of it.
TEST_F(WeightShards, AnIndexSaysNothingOfPrunedWeights) {
  std::filesystem::remove(folder_ / "m-00001-of-00002.safetensors");
  EXPECT_FALSE(read_compressed(index()));
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

TEST_F(InitialWeights, WhatTheFileAloneHasIsLeftOutWhereThatIsAsked) {
  auto more = trained(2);
  for (const char* const name : {"projector.0.weight", "projector.0.bias"}) more[name] = torch::zeros({1});
  const std::string file = write(more);
  Net net(2);
  const WeightsTaken taken = take_weights({.file = file, .skip = {"projector.*"}}, net);
  EXPECT_EQ(taken.skipped, (std::vector<std::string>{"projector.0.bias", "projector.0.weight"}));
  EXPECT_TRUE(net.fc->weight.eq(7).all().item<bool>());
  const WeightsRecipe renamed{.file = file, .skip = {"old.*"}, .rename = {R"(projector\.(.*) -> old.$1)"}};
  EXPECT_EQ(take_weights(renamed, net).skipped.front(), "old.0.bias") << "as a rule has renamed it";
  const auto skip = [&](const char* pattern) { take_weights({.file = file, .skip = {pattern}}, net); };
  const Error pattern = test::expect_error(ExitCode::kBadRecipe, [&] { skip("projector.1.weight"); });
  EXPECT_TRUE(test::holds(pattern.what(), "did you mean \"projector.0.weight\"?"));
}

TEST_F(InitialWeights, ATypeThatIsNotReadIsRefusedWhereTheModelHasTheTensor) {
  write(trained(2));
  std::string bytes = test::slurp(folder_ / "w.safetensors");
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  auto header = nlohmann::json::parse(bytes.substr(sizeof(length), length));
  header["scale"] = {{"dtype", "F8_E8M0"}, {"shape", {1}}};
  const auto file_with = [&](const std::string& name) {
    auto changed = header;
    const size_t end = bytes.size() - sizeof(length) - length;
    changed["scale"]["data_offsets"] = {end, end + 1};
    if (name != "scale") changed[name]["dtype"] = "F8_E4M3";
    const std::string text = changed.dump();
    const uint64_t size = text.size();
    return folder_
        .write(name, std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + text +
                         bytes.substr(sizeof(length) + length) + "x")
        .string();
  };
  Net net(2);
  const WeightsTaken taken = take_weights({.file = file_with("scale"), .skip = {"scale"}}, net);
  EXPECT_EQ(taken.skipped, std::vector<std::string>{"scale"});
  EXPECT_TRUE(net.fc->weight.eq(7).all().item<bool>());
  const std::string wanted = file_with("fc.weight");
  const Error error =
      test::expect_error(ExitCode::kBadData, [&] { take_weights({.file = wanted, .skip = {"scale"}}, net); });
  EXPECT_TRUE(test::holds(error.what(), R"("fc.weight" is of type "F8_E4M3")"));
}

TEST_F(InitialWeights, RulesThatMatchNoWholeNameAreNamedWhereTheFileDoesNotMatch) {
  std::map<std::string, torch::Tensor> tensors;
  for (const auto& [name, tensor] : trained(2)) tensors["module." + name] = tensor;
  const std::string file = write(tensors);
  Net net(2);
  const Error error = test::expect_error(
      ExitCode::kBadData, [&] { take_weights({.file = file, .rename = {R"(module\. -> )"}}, net); });
  EXPECT_TRUE(test::holds(error.what(), R"(one of the whole name: module\. -> )"));
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
