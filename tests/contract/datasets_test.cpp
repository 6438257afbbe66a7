// What holds for every row of the data set table.
#include "data/datasets.h"
#include "base/random.h"
#include "support/npy.h"
#include "support/support.h"

namespace autotrain {
namespace {

// Tiny files of every format, for as long as the tests run.
std::string file(const std::string& name) {
  static const test::TemporaryFolder folder;
  static const bool written = [] {
    const std::vector<int16_t> numbers = {1, 0, 2, 1, 3, 0, 1, 1, 2, 0, 0, 1, 5, 7, 2, 9};
    const std::string content = test::bytes_of_numbers(numbers);
    folder.write("images.npy", test::npy_file(test::npy_dictionary("|u1", "(4, 2, 4)"), content));
    folder.write("vectors.npy", test::npy_file(test::npy_dictionary("<i2", "(4, 4)"), content));
    folder.write("classes.npy", test::npy_file(test::npy_dictionary("<i2", "(4,)"), content.substr(0, 8)));
    folder.write("reals.npy", test::npy_file(test::npy_dictionary("<f8", "(4,)"), content));
    folder.write("tokens.bin", content);
    folder.write("table.csv", "a,b,y\n1,red,0\n2,blue,2\n3,red,1\n4,,0\n");
    folder.write("reals.csv", "a,b,y\n1,red,0.5\n2,blue,2\n3,red,1\n4,,0\n");
    return true;
  }();
  return written ? (folder / name).string() : "";
}

std::vector<Choice> choices() {
  return {{"fashion_mnist", {{"limit", int64_t{300}}}},
          {"synthetic", {{"kind", std::string("images")}, {"shape", std::vector<int64_t>{3, 8, 8}}}},
          {"synthetic", {{"kind", std::string("vectors")}}},
          {"synthetic", {{"kind", std::string("tokens")}}},
          {"npy", {{"inputs", file("images.npy")}, {"targets", file("classes.npy")}}},
          {"npy", {{"inputs", file("vectors.npy")}, {"targets", file("reals.npy")}}},
          {"table", {{"file", file("table.csv")}, {"target", std::string("y")}}},
          {"table", {{"file", file("reals.csv")}, {"target", std::string("y")}}},
          {"tokens",
           {{"files", std::vector<std::string>{file("tokens.bin")}},
            {"context", int64_t{3}},
            {"vocabulary", int64_t{10}}}},
          {"text", {{"files", std::vector<std::string>{"/usr/share/common-licenses/GPL-*"}}}}};
}

Batch get(const Dataset& data, const std::vector<int64_t>& indices) {
  const std::vector<int64_t> epochs(indices.size(), 0);
  return data.get(indices, SampleRandom(0, indices, epochs));
}

TEST(DatasetContract, EveryRowIsCovered) {
  std::set<std::string> covered;
  for (const Choice& choice : choices()) covered.insert(choice.name);
  for (const DatasetRow& row : dataset_table()) EXPECT_TRUE(covered.contains(row.spec.name)) << row.spec.name;
}

TEST(DatasetContract, SamplesHaveTheShapeThatInfoSays) {
  for (const Choice& choice : choices()) {
    const auto data = make_dataset(choice, {});
    const Batch batch = get(*data, {0, 1, 2});
    const DatasetInfo info = data->info();
    std::vector<int64_t> shape = {3};
    shape.insert(shape.end(), info.input_shape.begin(), info.input_shape.end());
    EXPECT_EQ(batch.inputs.sizes(), shape) << choice.name;
    EXPECT_EQ(batch.samples, 3);
    if (batch.targets.is_floating_point()) {
      EXPECT_EQ(batch.targets.size(-1), info.classes) << choice.name;
    } else {
      EXPECT_LT(batch.targets.max().item<int64_t>(), info.classes) << choice.name;
      EXPECT_GE(batch.targets.min().item<int64_t>(), 0) << choice.name;
    }
    if (info.vocabulary > 0) {
      EXPECT_LT(batch.inputs.max().item<int64_t>(), info.vocabulary);
    }
  }
}

TEST(DatasetContract, ABatchIsItsSamplesInOrder) {
  for (const Choice& choice : choices()) {
    const auto data = make_dataset(choice, {});
    const int64_t last = data->size() - 1;
    const Batch batch = get(*data, {last, 0, last});
    EXPECT_TRUE(batch.inputs[0].equal(get(*data, {last}).inputs[0])) << choice.name;
    EXPECT_TRUE(batch.inputs[1].equal(get(*data, {0}).inputs[0])) << choice.name;
    EXPECT_TRUE(batch.inputs[2].equal(batch.inputs[0])) << choice.name;
    EXPECT_TRUE(batch.targets[2].equal(batch.targets[0])) << choice.name;
  }
}

TEST(DatasetContract, OnlyImagesCanBeAugmented) {
  for (const Choice& choice : choices()) {
    const bool images = make_dataset(choice, {})->info().kind == DatasetInfo::Kind::kImages;
    if (images) continue;
    test::expect_error(ExitCode::kBadRecipe,
                       [&] { make_dataset(choice, {.flip = true, .crop_padding = 0}); });
  }
}

}  // namespace
}  // namespace autotrain
