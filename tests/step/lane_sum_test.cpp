#include "step/lane_sum.h"

#include <gtest/gtest.h>

#include "comm/exact_sum.h"
#include "support/lanes.h"

namespace autotrain {
namespace {

TEST(LaneSum, IsTheTreesSumInBuffersThatStay) {
  for (const int64_t lanes : {1, 2, 3, 4, 5, 8, 16}) {
    LaneSum sum(lanes, {777}, torch::kFloat32);
    LaneTree tree;
    for (int round = 0; round < 2; ++round) {
      sum.open();
      for (int64_t lane = 0; lane < lanes; ++lane) {
        EXPECT_FALSE(sum.whole());
        const torch::Tensor numbers = test::lane_numbers(777, lane + 100 * round);
        EXPECT_EQ(sum.buffers()[sum.current()].abs().sum().item<float>(), 0) << "a lane begins at zero";
        sum.buffers()[sum.current()].add_(numbers);
        sum.next();
        tree.add(numbers);
      }
      EXPECT_TRUE(sum.whole());
      EXPECT_EQ(sum.current(), 0u);
      EXPECT_TRUE(sum.buffers()[0].equal(tree.take())) << lanes;
    }
  }
}

}  // namespace
}  // namespace autotrain
