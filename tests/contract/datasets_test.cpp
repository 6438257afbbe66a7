// What holds for every row of the data set table.
#include "data/datasets.h"
#include "base/random.h"
#include "support/support.h"

namespace autotrain {
namespace {

std::vector<Choice> choices() {
  return {{"fashion_mnist", {{"limit", int64_t{300}}}},
          {"synthetic", {{"kind", std::string("images")}, {"shape", std::vector<int64_t>{3, 8, 8}}}},
          {"synthetic", {{"kind", std::string("vectors")}}},
          {"synthetic", {{"kind", std::string("tokens")}}},
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
    EXPECT_LT(batch.targets.max().item<int64_t>(), info.classes);
    EXPECT_GE(batch.targets.min().item<int64_t>(), 0);
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
