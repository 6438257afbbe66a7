#include "data/datasets.h"

#include <map>
#include <numeric>

#include "support/idx.h"
#include "support/support.h"

namespace autotrain {
namespace {

using test::TemporaryFolder;
using test::word;

std::string image_file(uint32_t count) {
  return word(0x803) + word(count) + word(28) + word(28) + std::string(count * 784, '\x10');
}

std::string label_file(const std::string& labels) {
  return word(0x801) + word(static_cast<uint32_t>(labels.size())) + labels;
}

Choice at(const TemporaryFolder& folder) {
  return {"fashion_mnist", {{"root", folder.path().string()}}};
}

TEST(FashionMnist, ReadsPlainMnistFilesFromAFolder) {
  const TemporaryFolder folder;
  folder.write("train-images-idx3-ubyte", image_file(3));
  folder.write("train-labels-idx1-ubyte", label_file(std::string("\x00\x05\x09", 3)));
  const auto data = make_dataset({at(folder)});
  EXPECT_EQ(data->size(), 3);
  EXPECT_EQ(data->info().input_shape, (std::vector<int64_t>{1, 28, 28}));
  EXPECT_EQ(data->info().classes, 10);
}

TEST(FashionMnist, ASharePartsTheTrainingImagesAndValidationTakesItOver) {
  const TemporaryFolder folder;
  folder.write("train-images-idx3-ubyte", image_file(10));
  folder.write("train-labels-idx1-ubyte", label_file(std::string("\0\1\2\3\4\5\6\7\x08\x09", 10)));
  const auto with = [&](std::map<std::string, Value> keys) {
    keys["root"] = folder.path().string();
    return Choice{"fashion_mnist", keys};
  };
  const auto labels_of = [](const Dataset& data) {
    std::vector<int64_t> all(static_cast<size_t>(data.size())), epochs(all.size(), 0);
    std::iota(all.begin(), all.end(), 0);
    const torch::Tensor labels = data.get(all, SampleRandom(0, all, epochs)).targets.to(torch::kInt64);
    return std::vector<int64_t>(labels.data_ptr<int64_t>(), labels.data_ptr<int64_t>() + labels.numel());
  };
  const Choice train = with({{"validation_share", 0.3}});
  EXPECT_EQ(labels_of(*make_dataset({train})), (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6}));
  const Choice validation = with({{"split", std::string("validation")}});
  EXPECT_EQ(labels_of(*make_dataset({.choice = validation, .training = &train})),
            (std::vector<int64_t>{7, 8, 9}));

  const Choice other = with({{"split", std::string("validation")}, {"validation_share", 0.5}});
  auto error =
      test::expect_error(ExitCode::kBadRecipe, [&] { make_dataset({.choice = other, .training = &train}); });
  EXPECT_TRUE(test::holds(error.what(), "share samples"));
  const Choice whole = with({});
  error = test::expect_error(ExitCode::kBadRecipe,
                             [&] { make_dataset({.choice = validation, .training = &whole}); });
  EXPECT_TRUE(test::holds(error.what(), "has no images"));
}

TEST(FashionMnist, MismatchedFilesAndLabelsOutOfRangeAreBadData) {
  const TemporaryFolder folder;
  folder.write("train-images-idx3-ubyte", image_file(3));
  folder.write("train-labels-idx1-ubyte", label_file("\x01\x02"));
  auto error = test::expect_error(ExitCode::kBadData, [&] { make_dataset({at(folder)}); });
  EXPECT_TRUE(test::holds(error.what(), "2 labels for 3 images"));
  folder.write("train-labels-idx1-ubyte", label_file("\x01\x0a\x02"));
  error = test::expect_error(ExitCode::kBadData, [&] { make_dataset({at(folder)}); });
  EXPECT_TRUE(test::holds(error.what(), "offset 9: the label 10 of sample 1"));
}

TEST(FashionMnist, AMissingFolderSaysHowToGetIt) {
  const TemporaryFolder folder;
  const auto error = test::expect_error(ExitCode::kMissingFile, [&] { make_dataset({at(folder)}); });
  EXPECT_TRUE(test::holds(error.what(), "dataset-fashion-mnist"));
}

TEST(FashionMnist, DebiansFilesHaveTheMeanAndDeviationWeUse) {
  const Choice raw{"fashion_mnist", {{"normalize", false}}};
  const auto data = make_dataset({raw});
  ASSERT_EQ(data->size(), 60000);
  std::vector<int64_t> indices(60000), epochs(60000, 0);
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<int64_t>(i);
  const torch::Tensor pixels =
      data->get(indices, SampleRandom(0, indices, epochs)).inputs.to(torch::kFloat64);
  EXPECT_NEAR(pixels.mean().item<double>(), 0.2860, 5e-5);
  EXPECT_NEAR(pixels.std().item<double>(), 0.3530, 5e-5);
  const auto test_split =
      make_dataset({Choice{"fashion_mnist", {{"split", std::string("test")}, {"limit", int64_t{100}}}}});
  EXPECT_EQ(test_split->size(), 100);
}

}  // namespace
}  // namespace autotrain
