#include "compress/predicted_batch.h"

#include <gtest/gtest.h>

namespace autotrain {
namespace {

const CompressionRoof kRoof{.flops_per_second = {{"fp32", 100e9}, {"int8", 400e9}}, .bytes_per_second = 20e9};

// s · F ÷ (2 · B) for a linear layer of s bytes a weight (docs/roofline.md).
TEST(PredictedBatch, OfALinearLayerFollowsTheBytesOfAWeightAndNotItsSize) {
  for (const int64_t weights : {1000, 4000000}) {
    const double flops = 2.0 * static_cast<double>(weights);
    EXPECT_DOUBLE_EQ(predicted_batch(kRoof, 4 * weights, flops, 100e9), 10);
    EXPECT_DOUBLE_EQ(predicted_batch(kRoof, 2 * weights, flops, 100e9), 5);
    EXPECT_DOUBLE_EQ(predicted_batch(kRoof, weights, flops, 100e9), 2.5);
    EXPECT_DOUBLE_EQ(predicted_batch(kRoof, weights / 2, flops, 100e9), 1.25);
  }
  EXPECT_EQ(predicted_batch({}, 4000, 2000, 100e9), 0) << "nothing was measured";
}

TEST(PredictedBatch, TimesOfProductsInTwoPrecisionsAdd) {
  const ForwardCount fp32{.operators = {{.name = "aten::linear", .flops = 100}}};
  const ForwardCount mixed{.operators = {{.name = "aten::convolution", .flops = 100},
                                         {.name = "quantized::linear_dynamic", .flops = 400}}};
  EXPECT_DOUBLE_EQ(reachable_flops(kRoof, "fp32", fp32), 100e9);
  EXPECT_DOUBLE_EQ(reachable_flops(kRoof, "fp32", mixed), 250e9);
  EXPECT_EQ(reachable_flops(kRoof, "bf16", fp32), 0);
}

}  // namespace
}  // namespace autotrain
