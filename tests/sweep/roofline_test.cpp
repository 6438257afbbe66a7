#include "sweep/roofline.h"

#include <cmath>
#include <functional>
#include <random>

#include <gtest/gtest.h>

namespace autotrain {
namespace {

std::vector<BatchLatency> curve(const std::vector<int64_t>& batches,
                                const std::function<double(double)>& latency) {
  std::vector<BatchLatency> points;
  for (const int64_t batch : batches) points.push_back({batch, latency(static_cast<double>(batch))});
  return points;
}

std::vector<int64_t> doubled(int64_t last) {
  std::vector<int64_t> batches;
  for (int64_t batch = 1; batch <= last; batch *= 2) batches.push_back(batch);
  return batches;
}

bool contains(const std::vector<std::string>& sentences, const std::string& part) {
  for (const std::string& sentence : sentences) {
    if (sentence.find(part) != std::string::npos) return true;
  }
  return false;
}

// 65 TFLOP/s and 300 GB/s: both figures that are told of this GPU hold, for weights of two bytes and of one.
TEST(Roofline, ATeslaT4TurnsAt216WithTwoByteWeightsAndAt108WithOneByteWeights) {
  const Roof t4{.flops_per_second = 65e12, .bytes_per_second = 300e9};
  EXPECT_NEAR(critical_batch(2, t4), 216.7, 0.1);
  EXPECT_NEAR(critical_batch(1, t4), 108.3, 0.1);
}

TEST(Roofline, AModelOfLinearLayersHasTheCriticalBatchOfOneWeight) {
  const Roof roof{.flops_per_second = 1e11, .bytes_per_second = 2e10};
  const double weights = 123456;
  EXPECT_DOUBLE_EQ(critical_batch(4 * weights, 2 * weights, roof), critical_batch(4, roof));
}

TEST(Knee, IsWhereAFlatLatencyMeetsAConstantThroughput) {
  for (const double knee : {5.0, 16.0, 100.0}) {
    const auto found =
        find_knee(curve(doubled(1024), [&](double b) { return 1e-3 * std::max(1.0, b / knee); }));
    ASSERT_TRUE(found);
    EXPECT_NEAR(found->batch / knee, 1, 1e-9);
    EXPECT_TRUE(found->reached);
    EXPECT_FALSE(found->below_range);
  }
}

TEST(Knee, OfASumOfBothIsWhereTheyAreEqual) {
  const auto found = find_knee(curve(doubled(4096), [](double b) { return 1e-3 * (1 + b / 32); }));
  EXPECT_NEAR(found->batch / 32, 1, 0.05);
}

TEST(Knee, MovesLittleWhenMedianLatenciesAreOffByAFewPercent) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> off(0.975, 1.025);  // what repeats leave
  for (int i = 0; i < 500; ++i) {
    const auto found =
        find_knee(curve(doubled(1024), [&](double b) { return off(random) * std::max(1.0, b / 50); }));
    EXPECT_NEAR(found->batch / 50, 1, 0.055);
    EXPECT_TRUE(found->reached);
  }
}

TEST(Knee, IsNotReachedWhileThroughputRises) {
  const auto flat = find_knee(curve(doubled(64), [](double) { return 1e-3; }));
  EXPECT_FALSE(flat->reached);
  EXPECT_DOUBLE_EQ(flat->batch, 64);  // a lower bound
  EXPECT_FALSE(find_knee(curve(doubled(64), [](double b) { return 1 + b / 50; }))->reached);
}

TEST(Knee, IsNotReachedWhereNothingNearTheLargestBatchWasMeasured) {
  EXPECT_FALSE(find_knee({{1, 1.0}, {512, 100.0}})->reached);
  EXPECT_TRUE(find_knee({{1, 1.0}, {128, 25.0}, {512, 99.0}})->reached);
}

TEST(Knee, IsNotReachedWhereThroughputRisesMuchFromTheLastBatchButOne) {
  EXPECT_FALSE(find_knee({{1, 1.0}, {16, 4.0}, {64, 11.0}})->reached);
}

TEST(Knee, IsBelowTheRangeWhereEveryBatchTakesItsShare) {
  const auto found = find_knee(curve({8, 16, 32, 64}, [](double b) { return b; }));
  EXPECT_TRUE(found->below_range);
  EXPECT_TRUE(found->reached);
}

TEST(Knee, TakesThroughputThatFallsAgainAtItsBest) {
  const auto found = find_knee(curve(doubled(512), [](double b) {
    return std::max(1.0, b / 16) * (b > 128 ? 1.5 : 1);  // beyond a cache
  }));
  EXPECT_NEAR(found->batch, 16, 1e-9);
  EXPECT_TRUE(found->reached);
  EXPECT_LE(found->best_batch, 128);
}

TEST(Knee, OfOnePointIsUnknown) {
  EXPECT_FALSE(find_knee({{8, 1.0}}));
  EXPECT_FALSE(find_knee({}));
}

TEST(Advice, SaysWhatIsFreeAndBeyondWhatNothingIsGained) {
  const auto sentences =
      latency_advice(curve(doubled(1024), [](double b) { return b <= 64 ? 1 + 0.03 * b / 64 : b / 64; }));
  EXPECT_TRUE(contains(sentences, "batch 64 costs 3 % more latency than batch 1: free"));
  EXPECT_TRUE(contains(sentences, "beyond 64 nothing is gained"));
}

TEST(Advice, SaysThatNothingIsFreeAndThatThroughputStillRises) {
  const auto sentences = latency_advice({{1, 1.0}, {2, 1.5}, {16, 4.0}});
  EXPECT_TRUE(contains(sentences, "batch 2 takes 1.5 times as long as batch 1: nothing is free"));
  EXPECT_TRUE(contains(sentences, "throughput rises by 200 % from batch 2 to 16, the largest measured"));
}

TEST(Advice, CallsNoBatchFreeThatIsHardlyLarger) {
  EXPECT_TRUE(contains(latency_advice({{1, 1.0}, {2, 2.0}, {64, 64.0}, {66, 66.0}}), "nothing is free"));
}

TEST(Advice, LooksBeyondABatchThatTookLonger) {
  EXPECT_TRUE(contains(latency_advice({{1, 1.0}, {2, 1.2}, {4, 1.05}, {8, 1.08}, {16, 3.0}}),
                       "batch 8 costs 8 % more latency than batch 1: free"));
}

TEST(Advice, FindsWhatIsFreeBehindAStep) {
  const auto sentences = latency_advice({{1, 1.0}, {2, 1.5}, {4, 1.52}, {8, 1.59}, {16, 3.2}});
  EXPECT_TRUE(contains(sentences,
                       "batch 8 costs 6 % more latency than batch 2: free, though batch 2 takes 1.5 times "
                       "as long as batch 1"));
}

TEST(Advice, SaysWhereNothingWasMeasuredInsteadOfThatNothingIsFree) {
  const auto sentences = latency_advice({{1, 1.0}, {32, 34.0}});
  EXPECT_TRUE(
      contains(sentences, "batch 32 takes 34.0 times as long as batch 1; no size between them was measured"));
}

}  // namespace
}  // namespace autotrain
