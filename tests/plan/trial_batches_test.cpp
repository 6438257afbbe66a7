#include "plan/trial_batches.h"

#include "base/random.h"
#include "support/counted.h"
#include "support/ragged.h"
#include "support/support.h"
#include "support/tasks.h"

namespace autotrain {
namespace {

constexpr int64_t kPlenty = int64_t{1} << 30;

Batch loaded(const Dataset& data, const Stream& stream, const Piece& piece, bool channels_last = false) {
  Loader loader(data, stream, repeated({piece}), {.prefetch = 0, .channels_last = channels_last});
  return *loader.next();
}

void expect_same(const Batch& batch, const Batch& expected) {
  const std::vector<torch::Tensor> tensors = batch.tensors(), others = expected.tensors();
  EXPECT_EQ(batch.samples, expected.samples);
  ASSERT_EQ(tensors.size(), others.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    ASSERT_TRUE(tensors[i].equal(others[i]));
    EXPECT_EQ(tensors[i].strides(), others[i].strides());
    EXPECT_EQ(tensors[i].scalar_type(), others[i].scalar_type());
  }
}

TEST(TrialBatches, AreTheLoadersWhateverWasAskedForBefore) {
  const TensorDataset data = test::small_data(70);
  const Stream stream(5, 70, /*shuffle=*/true);
  Random random(1);
  for (const int64_t keep : {kPlenty, int64_t{2000}, int64_t{0}}) {
    TrialBatches batches(data, stream, {.workers = 3, .prefetch = 2, .pin = true}, keep);
    for (int round = 0; round < 60; ++round) {
      const Piece piece = consecutive(random.below(150), 1 + random.below(40));
      expect_same(batches.get(piece), loaded(data, stream, piece));
      if (random.below(3) == 0) batches.end_trial();
    }
  }
}

TEST(TrialBatches, KeepTheFormatOfImages) {
  for (const int64_t channels : {1, 3}) {
    const TensorDataset data(torch::randn({20, channels, 4, 5}), torch::arange(20), 20);
    const Stream stream(5, 20, /*shuffle=*/true);
    TrialBatches batches(data, stream, {.workers = 2, .channels_last = true}, kPlenty);
    for (const int64_t samples : {1, 17, 5}) {
      const Piece piece = consecutive(2, samples);
      const Batch batch = batches.get(piece);
      EXPECT_EQ(batch.inputs.strides().slice(1), loaded(data, stream, piece, true).inputs.strides().slice(1));
      expect_same(batch, loaded(data, stream, piece, true));
    }
  }
}

TEST(TrialBatches, SamplesAreMadeOnce) {
  const TensorDataset data = test::small_data(100);
  const test::Counted counted(data);
  TrialBatches batches(counted, Stream(5, 100, true), {.workers = 2}, kPlenty);
  for (const int64_t samples :
       {8, 32, 20}) {  // the next trial's are among those of the last, or go on from there
    for (int update = 0; update < 2; ++update) {
      batches.get(consecutive(0, samples));
      batches.get(consecutive(samples, samples));
    }
    batches.end_trial();
  }
  EXPECT_EQ(counted.samples(), 64);
  EXPECT_GE(counted.requests(), 4);
}

TEST(TrialBatches, ThatAreNotTheirSamplesOneBelowTheOtherAreMadeWhole) {
  Random random(2);
  const std::vector<int64_t> lengths = test::random_lengths(50, random);
  for (const bool silent : {true, false}) {
    const test::Ragged data(lengths, silent);
    const Stream stream(1, 50, /*shuffle=*/false);
    TrialBatches batches(data, stream, {.workers = 3}, kPlenty);
    for (const int64_t samples : {2, 30, 7}) {
      const Piece piece = consecutive(0, samples);
      expect_same(batches.get(piece), loaded(data, stream, piece));
    }
    expect_same(batches.get({{7, 3, 40}}), loaded(data, stream, {{7, 3, 40}}));
  }
}

TEST(TrialBatches, WhatCannotBeReadIsTheLoadersError) {
  class Broken final : public Dataset {
   public:
    int64_t size() const override { return 9; }
    Batch get(c10::ArrayRef<int64_t>, const SampleRandom&) const override {
      throw std::runtime_error("is broken");
    }
  };
  const Broken data;
  TrialBatches batches(data, Stream(0, 9, false), {.workers = 2}, kPlenty);
  const Error error = test::expect_error(ExitCode::kBadData, [&] { batches.get(consecutive(0, 4)); });
  EXPECT_TRUE(test::holds(error.what(), "sample 0 "));
}

}  // namespace
}  // namespace autotrain
