#include "model/compressed_file.h"

#include <ATen/ATen.h>
#include <torch/nn/modules/linear.h>

#include <gtest/gtest.h>
#include "checkpoint/file_notes.h"
#include "model/initial_weights.h"
#include "model/pruned.h"
#include "support/support.h"

namespace autotrain {
namespace {

class CompressedFile : public testing::Test {
 protected:
  std::filesystem::path write(const std::vector<NamedTensor>& tensors) const {
    const std::filesystem::path path = folder_ / "w.safetensors";
    write_compressed(path, tensors, "some");
    return path;
  }

  // What is in the place of one tensor, changed before it is written.
  void expect_refused(std::vector<NamedTensor> stored, const std::string& name,
                      const torch::Tensor& wrong) const {
    for (NamedTensor& item : stored) {
      if (item.name == name) item.tensor = wrong;
    }
    const std::filesystem::path path = write(stored);
    const Error error = test::expect_error(ExitCode::kBadData, [&] { read_compressed(path); });
    EXPECT_TRUE(test::holds(error.what(), name));
  }

  test::TemporaryFolder folder_;
};

TEST_F(CompressedFile, GivesBackEveryTensorUnderTheModelsNames) {
  torch::manual_seed(1);
  const torch::Tensor a = torch::randn({6, 70}), b = torch::randn({4, 8, 3, 3}), c = torch::randn({3}),
                      d = torch::randn({5, 12});
  std::vector<NamedTensor> stored = {{"c", c}};
  for (const auto& parts :
       {stored_as("a", to_int4(a, 32)), stored_as("b", to_sparse(b)), stored_as("d", to_int8(d))})
    stored.insert(stored.end(), parts.begin(), parts.end());
  const auto read = read_compressed(write(stored));
  ASSERT_TRUE(read);
  std::map<std::string, torch::Tensor> by_name;
  for (const NamedTensor& item : read->tensors) by_name[item.name] = item.tensor;
  ASSERT_EQ(by_name.size(), 4U);
  EXPECT_TRUE(by_name["a"].equal(from_int4(to_int4(a, 32))));
  EXPECT_TRUE(by_name["b"].equal(from_sparse(to_sparse(b))));
  EXPECT_TRUE(by_name["c"].equal(c));
  EXPECT_TRUE(by_name["d"].equal(from_int8(to_int8(d))));
  EXPECT_TRUE(read->stays.at("b").equal(by_name["b"].ne(0)));
  EXPECT_EQ(read->stays.size(), 1U);
}

TEST_F(CompressedFile, RoundedWeightsThatWerePrunedBeforeSayWhichStay) {
  torch::manual_seed(2);
  for (const bool eight : {true, false}) {
    const torch::Tensor weight = torch::randn({4, 8, 3, 3}), stays = torch::rand(weight.sizes()).gt(0.3);
    std::vector<NamedTensor> stored =
        eight ? stored_as("a", to_int8(weight * stays)) : stored_as("a", to_int4(weight * stays, 32));
    stored.push_back({name_of_stays("a"), to_bits(stays)});
    stored.push_back({"b", weight});
    stored.push_back({name_of_stays("b"), to_bits(stays)});
    const auto read = read_compressed(write(stored));
    ASSERT_EQ(read->stays.size(), 2U);
    EXPECT_TRUE(read->stays.at("a").equal(stays));
    EXPECT_TRUE(read->stays.at("b").equal(stays));
    EXPECT_EQ(read->tensors.size(), 2U);
    EXPECT_TRUE(read->is_pruned());
    expect_refused(stored, "a..stays", torch::ones({4, 8}, torch::kUInt8));
    expect_refused(stored, "b..stays", torch::ones({4, 9}, torch::kInt8));
  }
}

// Of four that have more than two zeros, the places of 2:4 name one that has to stay.
TEST_F(CompressedFile, ZerosOfWhatWasPrunedBeforeStayWhereTwoOfFourAreKept) {
  const torch::Tensor stays = torch::tensor({{1, 0, 0, 0, 1, 1, 0, 1}}, torch::kBool);
  std::vector<NamedTensor> stored = stored_as("a", to_sparse(torch::arange(1.0F, 9.0F).view({1, 8}) * stays));
  stored.push_back({name_of_stays("a"), to_bits(stays)});
  const torch::Tensor left = read_compressed(write(stored))->stays.at("a");
  EXPECT_FALSE(left.logical_and(stays.logical_not()).any().item<bool>()) << left;
  EXPECT_EQ(left.sum().item<int64_t>(), 3);
}

TEST_F(CompressedFile, WeightsOfAnotherRunAreNotTakenForThoseThatWerePruned) {
  const torch::Tensor stays = torch::tensor({{1, 0}, {0, 1}}, torch::kBool);
  CompressedWeights pruned;
  pruned.stays = {{"fc.weight", stays}};
  pruned.kept = {{"fc", torch::tensor({0, 3})}};
  const WeightsRecipe recipe{.file = "first.safetensors"};
  const auto check = [&](const torch::Tensor& weight) {
    check_still_pruned(pruned, {{"fc.weight", weight}, {"fc.bias", torch::ones({7})}}, recipe);
  };
  check(torch::eye(2));
  const auto said = [&](const torch::Tensor& weight) {
    return std::string(test::expect_error(ExitCode::kBadData, [&] { check(weight); }).what());
  };
  EXPECT_TRUE(test::holds(said(torch::ones({2, 2})), "first.safetensors")) << "zeros were filled";
  EXPECT_TRUE(test::holds(said(torch::ones({2, 2})), "has not its zeros"));
  pruned.stays.clear();
  EXPECT_TRUE(test::holds(said(torch::eye(3)), "has not its shape"));
}

TEST_F(CompressedFile, FillsAModelAsAnOrdinaryFileDoes) {
  torch::manual_seed(1);
  torch::nn::Linear layer(8, 4);
  const torch::Tensor trained = torch::randn({4, 8});
  std::vector<NamedTensor> stored = stored_as("weight", to_int8(trained));
  stored.push_back({"bias", torch::ones({4})});
  const WeightsTaken taken = take_weights({.file = write(stored).string()}, *layer);
  EXPECT_EQ(taken.taken.size(), 2U);
  EXPECT_TRUE(layer->weight.equal(from_int8(to_int8(trained))));
  EXPECT_TRUE(layer->bias.eq(1).all().item<bool>());
}

// A stranger's module, whose tensors are called as those of smaller weights are.
struct Stranger : torch::nn::Module {
  Stranger() {
    const auto layer = register_module("layer", std::make_shared<torch::nn::Module>());
    layer->register_parameter("weight", torch::zeros({2, 4}));
    layer->register_parameter("kept", torch::zeros({2}));
  }
};

TEST_F(CompressedFile, AnOrdinaryFileWithSuchNamesStaysOne) {
  std::vector<NamedTensor> tensors = stored_as("layer.weight", to_int8(torch::randn({2, 8})));
  tensors.push_back({name_of_kept("layer"), torch::arange(2)});
  const std::filesystem::path path = folder_ / "ordinary.safetensors";
  write_safetensors(path, tensors, {{"format", "pt"}});
  EXPECT_FALSE(read_compressed(path));
  EXPECT_EQ(WeightsFile(path).list().size(), 3U);

  Stranger module;
  write_safetensors(path, {{"layer.weight", torch::ones({2, 4})}, {"layer.kept", torch::full({2}, 3.0f)}});
  EXPECT_EQ(take_weights({.file = path.string()}, module).taken.size(), 2U);
  EXPECT_TRUE(module.named_parameters()["layer.kept"].eq(3).all().item<bool>());
}

// A model's own tensors are called as what stood for weights in version 1 was.
TEST_F(CompressedFile, NoTensorOfAModelIsTakenForWhatStandsForAnother) {
  torch::manual_seed(3);
  const torch::Tensor weight = torch::randn({3, 8});
  std::vector<NamedTensor> stored = stored_as("layer.weight", to_int8(weight));
  for (const char* const own : {"layer.kept", "layer.int8", "layer.scale", "layer.weight.int8",
                                "layer.weight.scale", "layer.weight.stays"})
    stored.push_back({own, torch::full({2}, 3.0F)});
  const auto read = read_compressed(write(stored));
  ASSERT_TRUE(read);
  EXPECT_FALSE(read->is_pruned());
  std::map<std::string, torch::Tensor> by_name;
  for (const NamedTensor& item : read->tensors) by_name[item.name] = item.tensor;
  ASSERT_EQ(by_name.size(), 7U);
  EXPECT_TRUE(by_name["layer.weight"].equal(from_int8(to_int8(weight))));
  EXPECT_TRUE(by_name["layer.kept"].eq(3).all().item<bool>());
}

TEST_F(CompressedFile, OfVersion1AreReadAsTheyWereWritten) {
  const std::filesystem::path path = folder_ / "first.safetensors";
  const Int8Weight stored = to_int8(torch::ones({2, 8}));
  write_safetensors(path,
                    {{"a.weight.int8", stored.values},
                     {"a.weight.scale", stored.scale},
                     {"a.kept", torch::tensor({0, 3})},
                     {"b", torch::eye(8)},
                     {"b.stays", to_bits(torch::eye(8).to(torch::kBool))}},
                    {{"autotrain.smaller_weights", "1"}});
  const auto read = read_compressed(path);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->tensors.size(), 2U);
  EXPECT_EQ(read->kept.at("a").numel(), 2);
  EXPECT_TRUE(read->stays.at("b").equal(torch::eye(8).to(torch::kBool)));
}

// Of experts, [experts, out, in], each output of each has scales of its own.
TEST_F(CompressedFile, ExpertsComeBackWithTheScalesOfTheirOutputs) {
  torch::manual_seed(4);
  const torch::Tensor weight = torch::randn({3, 4, 70}), rows = weight.flatten(0, 1);
  Int8Weight eight = to_int8(rows);
  eight = {eight.values.view(weight.sizes()), eight.scale.view({3, 4})};
  Int4Weight four = to_int4(rows, 32);
  four.shape = weight.sizes().vec();
  std::vector<NamedTensor> stored = stored_as("a", eight);
  for (const NamedTensor& each : stored_as("b", four)) stored.push_back(each);
  const auto read = read_compressed(write(stored));
  ASSERT_EQ(read->tensors.size(), 2U);
  EXPECT_TRUE(read->tensors[0].tensor.equal(from_int8(to_int8(rows)).view(weight.sizes())));
  EXPECT_TRUE(read->tensors[1].tensor.equal(from_int4(to_int4(rows, 32)).view(weight.sizes())));
  expect_refused(stored, "a..scale", torch::ones({4, 3}));
  expect_refused(stored, "b..shape", torch::tensor({3, 4}, torch::kInt64));
  expect_refused(stored, "b..shape", torch::tensor({2, 4, 70}, torch::kInt64));
}

TEST_F(CompressedFile, SaysInItsMetadataWhatItIs) {
  const auto notes = read_safetensors_metadata(write(stored_as("a", to_int8(torch::ones({2, 8})))));
  EXPECT_EQ(notes.at("autotrain.smaller_weights"), "2");
  EXPECT_EQ(notes.at("autotrain.method"), "some");
}

TEST_F(CompressedFile, ANewerVersionIsRefusedByName) {
  const std::filesystem::path path = folder_ / "newer.safetensors";
  const auto tensors = stored_as("a", to_int8(torch::ones({2, 8})));
  write_safetensors(path, tensors, {{"autotrain.smaller_weights", "3"}});
  const Error newer = test::expect_error(ExitCode::kBadData, [&] { read_compressed(path); });
  EXPECT_TRUE(test::holds(newer.what(), "version 3"));
  for (const char* const marker : {"", "one", "0", "-1"}) {
    write_safetensors(path, tensors, {{"autotrain.smaller_weights", marker}});
    const Error damaged = test::expect_error(ExitCode::kBadData, [&] { read_compressed(path); });
    EXPECT_TRUE(test::holds(damaged.what(), "no version")) << marker;
  }
}

TEST_F(CompressedFile, DamagedPartsAreRefusedByName) {
  const auto eight = stored_as("a", to_int8(torch::ones({2, 8}))),
             four = stored_as("a", to_int4(torch::ones({2, 8}), 4)),
             sparse = stored_as("a", to_sparse(torch::ones({2, 8})));
  expect_refused(eight, "a..scale", torch::ones({3}));
  expect_refused(eight, "a..int8", torch::ones({2, 8}));
  expect_refused(four, "a..shape", torch::tensor({2, 9}, torch::kInt64));
  expect_refused(four, "a..shape", torch::tensor({3, 8}, torch::kInt64));
  expect_refused(four, "a..shape", torch::tensor({int64_t{2}, int64_t{1} << 40, int64_t{1} << 40}));
  expect_refused(four, "a..scale", torch::ones({2, 3}));
  expect_refused(sparse, "a..shape", torch::tensor({2, 12}, torch::kInt64));
  expect_refused(sparse, "a..places", torch::full({2, 2}, 5, torch::kUInt8));   // the same one twice
  expect_refused(sparse, "a..places", torch::full({2, 2}, 16, torch::kUInt8));  // the fifth of four
}

// A run that goes on needs its first weights for their shapes alone, and goes on without.
TEST_F(CompressedFile, PrunedWeightsAreFoundInTheirFolderAsLongAsTheyAreAlone) {
  write_compressed(
      folder_ / "small.safetensors",
      {{"a.weight", at::ones({2, 3})}, {name_of_kept("a"), torch::tensor({0, 2}, torch::kInt64)}},
      "channels:0.5");
  const WeightsRecipe recipe{.file = folder_.path().string()};
  const auto pruned = pruned_by_file(recipe);
  ASSERT_TRUE(pruned);
  EXPECT_TRUE(pruned->is_pruned());
  write_compressed(folder_ / "another.safetensors", {{"a.weight", at::ones({2, 3})}}, "2:4");
  EXPECT_FALSE(pruned_by_file(recipe)) << "nobody can say which it was";
}

}  // namespace
}  // namespace autotrain
