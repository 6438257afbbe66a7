#include "data/bad_samples.h"

#include <set>

#include "support/counted.h"
#include "support/support.h"
#include "support/tasks.h"

namespace autotrain {
namespace {

// Sample i is i; some cannot be read.
class Brittle final : public Dataset {
 public:
  Brittle(int64_t size, std::set<int64_t> broken, ExitCode code = ExitCode::kBadData)
      : size_(size), broken_(std::move(broken)), code_(code) {}
  int64_t size() const override { return size_; }
  Batch get(c10::ArrayRef<int64_t> indices, const SampleRandom& random) const override {
    Batch batch{torch::tensor(indices), {}, static_cast<int64_t>(indices.size())};
    for (size_t i = 0; i < indices.size(); ++i) {
      EXPECT_EQ(random.epoch(i), 3);
      if (broken_.contains(indices[i])) throw Error(code_, "sample " + std::to_string(indices[i]), "is torn");
    }
    return batch;
  }
  std::optional<int64_t> cost(int64_t index) const override { return 10 * index; }

 private:
  int64_t size_;
  std::set<int64_t> broken_;
  ExitCode code_;
};

std::vector<int64_t> got(const SkippingDataset& data, std::vector<int64_t> indices) {
  const std::vector<int64_t> epochs(indices.size(), 3);
  const torch::Tensor inputs = data.get(indices, SampleRandom(1, indices, epochs)).inputs;
  return {inputs.const_data_ptr<int64_t>(), inputs.const_data_ptr<int64_t>() + inputs.numel()};
}

TEST(BadSamples, TheNextGoodOneTakesTheirPlaceHoweverTheyAreAskedFor) {
  const auto make = [] { return std::make_unique<Brittle>(10, std::set<int64_t>{2, 3, 9}); };
  const SkippingDataset together(make()), alone(make());
  EXPECT_EQ(got(together, {1, 2, 3, 9, 5}), (std::vector<int64_t>{1, 4, 4, 0, 5}));
  for (const auto& [index, expected] : {std::pair<int64_t, int64_t>{1, 1}, {3, 4}, {2, 4}, {9, 0}}) {
    EXPECT_EQ(got(alone, {index}), std::vector<int64_t>{expected});
  }
  EXPECT_EQ(together.count(), 3);
  EXPECT_EQ(together.take_found().size(), 3U);
  EXPECT_TRUE(together.take_found().empty());
  EXPECT_TRUE(test::holds(alone.take_found()[0].why, "sample 3: is torn"));
}

// Gives positions, and cannot read its first sample.
class Placed final : public Dataset {
 public:
  int64_t size() const override { return 9; }
  Batch get(c10::ArrayRef<int64_t> indices, const SampleRandom& random) const override {
    Batch batch{torch::empty({std::ssize(indices)}, torch::kInt64), {}, std::ssize(indices)};
    for (size_t i = 0; i < indices.size(); ++i) {
      if (indices[i] == 0) throw Error(ExitCode::kBadData, "the first", "is torn");
      batch.inputs.mutable_data_ptr<int64_t>()[i] = random.position(i);
    }
    return batch;
  }
};

TEST(BadSamples, WhatStandsInForOneStandsInItsPlaceOfTheRun) {
  const SkippingDataset data(std::make_unique<Placed>());
  const std::vector<int64_t> indices = {4, 0, 7}, epochs = {2, 2, 2}, positions = {18, 19, 20};
  const Batch batch = data.get(indices, SampleRandom(1, indices, epochs, positions));
  EXPECT_TRUE(batch.inputs.equal(torch::tensor(positions)));
}

// Sample i of epoch e is made of others too, and cannot be read when i + e is a multiple of 3.
class Mixed final : public Dataset {
 public:
  int64_t size() const override { return 12; }
  Batch get(c10::ArrayRef<int64_t> indices, const SampleRandom& random) const override {
    for (size_t i = 0; i < indices.size(); ++i) {
      if ((indices[i] + random.epoch(i)) % 3 == 0) throw Error(ExitCode::kBadData, "x", "is torn");
    }
    return {torch::tensor(indices), {}, static_cast<int64_t>(indices.size())};
  }
};

TEST(BadSamples, WhatStandsInDoesNotDependOnOtherEpochs) {
  const auto ask = [](const SkippingDataset& data, int64_t index, int64_t epoch) {
    return data.get(index, SampleRandom(1, index, epoch)).inputs.item<int64_t>();
  };
  const SkippingDataset used(std::make_unique<Mixed>());
  for (int64_t epoch = 0; epoch < 6; ++epoch) {
    for (int64_t index = 0; index < 12; ++index) {
      const SkippingDataset fresh(std::make_unique<Mixed>());
      EXPECT_EQ(ask(used, index, epoch), ask(fresh, index, epoch)) << index << " in epoch " << epoch;
    }
  }
  EXPECT_EQ(used.count(), 12);
  EXPECT_EQ(used.take_found().size(), 12U) << "each is told of once";
}

TEST(BadSamples, WithoutAnyGoodOneThereIsAnError) {
  const SkippingDataset data(std::make_unique<Brittle>(3, std::set<int64_t>{0, 1, 2}));
  const Error error = test::expect_error(ExitCode::kBadData, [&] { got(data, {1}); });
  EXPECT_TRUE(test::holds(error.what(), "none of the 3 samples"));
}

// What is known of bad samples depends on what was asked for before; the order of a window must not.
TEST(BadSamples, WhatASampleCostsDoesNotDependOnWhatIsBad) {
  const SkippingDataset data(std::make_unique<Brittle>(5, std::set<int64_t>{2}));
  EXPECT_EQ(got(data, {2}), (std::vector<int64_t>{3}));
  EXPECT_EQ(data.cost(2), 20);
}

TEST(BadSamples, OtherErrorsEndTheRun) {
  const SkippingDataset data(std::make_unique<Brittle>(3, std::set<int64_t>{1}, ExitCode::kMissingFile));
  test::expect_error(ExitCode::kMissingFile, [&] { got(data, {1}); });
  EXPECT_EQ(data.count(), 0);
}

TEST(BadSamples, ADataSetThatSkipsThemMakesItsBatchesWhereTheOtherDoes) {
  const auto data = test::small_data(4);
  EXPECT_FALSE(SkippingDataset(std::make_unique<test::Counted>(data)).on_device());
  EXPECT_TRUE(SkippingDataset(std::make_unique<test::Counted>(data, /*on_device=*/true)).on_device());
}

}  // namespace
}  // namespace autotrain
