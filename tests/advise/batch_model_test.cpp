#include "advise/batch_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace autotrain {
namespace {

// An update of one micro-batch of m samples takes `fixed` + m × `each` seconds.
ExecutionModel affine(double fixed, double each, int64_t capacity, double update_seconds = 0) {
  ExecutionModel model{.update_seconds = update_seconds, .capacity = capacity};
  for (const int64_t m : {1, 16, 64}) model.points.push_back({m, fixed + each * static_cast<double>(m), 3});
  return model;
}

const BatchRow& row_of(const BatchAdvice& advice, int64_t effective) {
  return *std::ranges::find(advice.rows, effective, &BatchRow::effective);
}

NoiseScale scale(double samples, double low, double high) {
  return {.samples = samples, .low = low, .high = high};
}

TEST(BatchModel, AnUpdateTakesItsMicroBatchesAndOneStepOfTheOptimizer) {
  ExecutionModel model = affine(0.012, 0.001, 64, 0.002);
  EXPECT_NEAR(model.seconds_of(64, 1), 0.076, 1e-12);
  EXPECT_NEAR(model.seconds_of(40, 1), 0.052, 1e-12) << "between two that were measured";
  EXPECT_NEAR(model.seconds_of(128, 1), 2 * 0.074 + 0.002, 1e-12);
  EXPECT_NEAR(model.seconds_of(70, 1), 2 * (0.010 + 0.035) + 0.002, 1e-12) << "an even cut: 35 + 35";
  EXPECT_NEAR(model.seconds_of(128, 2), 0.076, 1e-12);
  model.exchange_seconds = 0.5;
  EXPECT_NEAR(model.seconds_of(128, 2), 0.576, 1e-12);
  EXPECT_NEAR(model.seconds_of(128, 1), 0.150, 1e-12) << "one device has nobody to exchange with";
}

TEST(BatchModel, OfOneMeasuredMicroBatchNoOtherIsTakenToBeFaster) {
  const ExecutionModel model{.points = {{32, 0.32, 1}}, .capacity = 64};
  EXPECT_NEAR(model.seconds_of(8, 1), 0.32, 1e-12);
  EXPECT_NEAR(model.seconds_of(64, 1), 0.64, 1e-12);
  const BatchAdvice advice =
      advise_batch({.execution = model, .noise = scale(10, 5, 20), .own = 64, .dataset_size = 10000});
  EXPECT_EQ(advice.rows[advice.advised].effective, 32) << "half the samples at a speed that was measured";
}

TEST(BatchModel, MemoryLiesOnTheLineBetweenTrials) {
  ExecutionModel model{.points = {{8, 1, 1}}, .capacity = 64, .peaks = {{16, 1600}}};
  EXPECT_EQ(model.peak_of(16), 1600);
  EXPECT_EQ(model.peak_of(32), std::nullopt);
  model.peaks.push_back({48, 2240});
  EXPECT_EQ(model.peak_of(32), 1920);
  EXPECT_EQ(model.peak_of(8), 1440);
}

TEST(BatchModel, SamplesFollowMcCandlish) {
  const Ranged half = samples_ratio(100, 200, scale(100, 50, 300));
  EXPECT_NEAR(*half.value, 200.0 / 300, 1e-12);
  EXPECT_NEAR(half.low, 150.0 / 250, 1e-12);
  EXPECT_NEAR(half.high, 400.0 / 500, 1e-12);
  const Ranged twice = samples_ratio(400, 200, scale(100, 50, 300));
  EXPECT_NEAR(twice.low, 700.0 / 500, 1e-12) << "of more noise a large batch wastes less";
  EXPECT_NEAR(twice.high, 450.0 / 250, 1e-12);
}

TEST(BatchModel, OfALowerBoundThereAreBoundsOnly) {
  const Ranged half = samples_ratio(50, 100, {.low = 300});
  EXPECT_EQ(half.value, std::nullopt);
  EXPECT_NEAR(half.low, 350.0 / 400, 1e-12);
  EXPECT_NEAR(half.high, 1, 1e-12);
}

TEST(BatchModel, WhereTheDeviceIsAsFastWithoutAccumulationItBuysNothing) {
  const BatchAdvice advice = advise_batch(
      {.execution = affine(0, 0.001, 64), .noise = scale(100, 90, 110), .own = 256, .dataset_size = 10000});
  EXPECT_EQ(advice.verdict, BatchVerdict::kLower);
  const BatchRow& single = row_of(advice, 64);
  EXPECT_EQ(single.window, 1);
  EXPECT_NEAR(*single.samples->value, 164.0 / 356, 1e-9);
  EXPECT_NEAR(*single.seconds->value, 164.0 / 356, 1e-9);
  EXPECT_NEAR(*single.updates->value, 4 * 164.0 / 356, 1e-9);
  EXPECT_EQ(advice.rows[advice.advised].window, 1);
  EXPECT_EQ(row_of(advice, 256).window, 4);
}

// The same speeds, of which the repeats lay so far apart that half the size may be half as fast.
TEST(BatchModel, WhatUnsteadySpeedsDoNotSayIsNotAdvised) {
  ExecutionModel model{.points = {{32, 0.032, 9, 0.9}, {64, 0.064, 9, 0.9}}, .capacity = 64};
  BatchRequest request{.execution = model, .noise = scale(100, 90, 110), .own = 64, .dataset_size = 10000};
  const BatchAdvice unsure = advise_batch(request);
  EXPECT_GT(row_of(unsure, 32).seconds->high, 1);
  EXPECT_NEAR(*row_of(unsure, 32).seconds->value, 132.0 / 164, 1e-9);
  EXPECT_EQ(row_of(unsure, 128).seconds->high, row_of(unsure, 128).samples->high) << "of the same passes";
  EXPECT_EQ(unsure.verdict, BatchVerdict::kKeep);
  EXPECT_TRUE(unsure.unsure);
  for (SpeedPoint& point : request.execution.points) point.uncertainty = 0.01;
  EXPECT_EQ(advise_batch(request).verdict, BatchVerdict::kLower);
}

TEST(BatchModel, WhereADeviceIdlesALargerBatchIsAdvised) {
  const BatchAdvice advice = advise_batch(
      {.execution = affine(1, 0, 64), .noise = scale(1000, 900, 1100), .own = 8, .dataset_size = 10000});
  EXPECT_EQ(advice.verdict, BatchVerdict::kRaise);
  EXPECT_EQ(advice.rows[advice.advised].effective, 64) << "beyond it updates are accumulated";
  EXPECT_EQ(advice.knee, 64);
}

// Fast from 100 samples on, and as much noise as that.
ExecutionModel bent() {
  return {.points = {{25, 1, 1}, {50, 1, 1}, {100, 1, 1}, {200, 2, 1}, {400, 4, 1}}, .capacity = 400};
}

TEST(BatchModel, WhatIsFastAndLearnsIsKept) {
  const BatchAdvice advice =
      advise_batch({.execution = bent(), .noise = scale(100, 80, 120), .own = 100, .dataset_size = 10000});
  EXPECT_EQ(advice.verdict, BatchVerdict::kKeep);
  EXPECT_EQ(advice.advised, advice.own);
  EXPECT_FALSE(advice.unsure);
  EXPECT_EQ(advice.knee, 100);
  EXPECT_NEAR(*row_of(advice, 50).seconds->value, 1.5, 1e-9);
  EXPECT_NEAR(*row_of(advice, 200).seconds->value, 1.5, 1e-9);
}

TEST(BatchModel, WhatAWideIntervalDoesNotSayIsNotAdvised) {
  const BatchRequest request{
      .execution = bent(), .noise = scale(100, 50, 40000), .own = 400, .dataset_size = 10000};
  const BatchAdvice advice = advise_batch(request);
  EXPECT_EQ(advice.verdict, BatchVerdict::kLower) << "as fast, and never more samples";
  BatchRequest slower = request;
  for (SpeedPoint& point : slower.execution.points) {
    if (point.micro_batch < 400) point.seconds *= 1.1;
  }
  const BatchAdvice unsure = advise_batch(slower);
  EXPECT_EQ(unsure.verdict, BatchVerdict::kKeep);
  EXPECT_TRUE(unsure.unsure);
}

TEST(BatchModel, OfSizesThatGainTheOneWithTheBestWorseEndIsAdvised) {
  // Half the size is somewhat slower: at the estimate it takes the least time, at the upper end more than the
  // own.
  ExecutionModel model = bent();
  for (SpeedPoint& point : model.points) {
    if (point.micro_batch == 100) point.seconds = 1.2;
  }
  const BatchAdvice advice =
      advise_batch({.execution = model, .noise = scale(50, 0, 5000), .own = 400, .dataset_size = 10000});
  EXPECT_LT(*row_of(advice, 100).seconds->value, *row_of(advice, 200).seconds->value);
  EXPECT_GT(row_of(advice, 100).seconds->high, 1);
  EXPECT_EQ(advice.verdict, BatchVerdict::kLower);
  EXPECT_EQ(advice.rows[advice.advised].effective, 200);
}

TEST(BatchModel, OfALowerBoundNoSmallerSizeIsAdvisedAndALargerOneThatGainsIs) {
  BatchRequest request{.execution = bent(), .noise = NoiseScale{.low = 1}, .own = 400, .dataset_size = 10000};
  const BatchAdvice smaller = advise_batch(request);
  EXPECT_EQ(smaller.verdict, BatchVerdict::kKeep);
  EXPECT_TRUE(smaller.unsure) << "nothing says that they need as many samples";
  request.own = 25;
  request.noise->low = 300;
  const BatchAdvice larger = advise_batch(request);
  EXPECT_EQ(larger.verdict, BatchVerdict::kRaise);
  EXPECT_EQ(larger.rows[larger.advised].effective, 100);
}

TEST(BatchModel, WithoutANoiseScaleThereIsTheKneeAlone) {
  const BatchAdvice advice = advise_batch({.execution = bent(), .own = 100, .dataset_size = 10000});
  EXPECT_EQ(advice.verdict, BatchVerdict::kUnknown);
  EXPECT_EQ(advice.knee, 100);
  EXPECT_EQ(row_of(advice, 100).samples, std::nullopt);
  EXPECT_TRUE(advice.devices.empty());
}

TEST(BatchModel, DevicesGainNothingWhereTheirShareIsTooSmall) {
  const BatchAdvice advice = advise_batch(
      {.execution = affine(0.1, 0.001, 64), .noise = scale(1, 0.5, 2), .own = 64, .dataset_size = 10000});
  EXPECT_NEAR(advice.devices[1].seconds_at_own, 0.132 / 0.164, 1e-9);
  EXPECT_NEAR(advice.devices[2].seconds_at_own, 0.116 / 0.164, 1e-9);
  EXPECT_EQ(advice.most_devices_own, 8) << "64 take 0.93 of the time of eight";
}

TEST(BatchModel, TheTableKeepsToWhatIsPossible) {
  for (const int64_t e : batch_sizes(1000, 4, 3000, 10, std::nullopt)) {
    EXPECT_GE(e, 4);
    EXPECT_LE(e, 3000);
  }
  const auto sizes = batch_sizes(7, 1, 7, 100, std::nullopt);
  EXPECT_EQ(sizes.back(), 7);
  EXPECT_EQ(sizes.front(), 1);
}

}  // namespace
}  // namespace autotrain
