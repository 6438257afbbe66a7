#include "step/input_scale.h"

#include <set>

#include "support/support.h"

namespace autotrain {
namespace {

TEST(InputScale, EveryStepOfTheShareIsDrawnAndNoOther) {
  const InputScale scale{.share = 0.4, .seed = 3};
  EXPECT_EQ(scale.most_steps(160), 2);
  EXPECT_EQ(scale.most_steps(159), 1);
  EXPECT_EQ((InputScale{.share = 0.9}).most_steps(32), 0) << "something must be left";
  EXPECT_EQ((InputScale{.share = 0.9}).most_steps(64), 1);
  EXPECT_FALSE(InputScale{}.active());
  std::set<int64_t> drawn;
  for (int64_t window = 0; window < 60; ++window) {
    drawn.insert(scale.steps(160, window));
    EXPECT_EQ(scale.steps(160, window), scale.steps(160, window));
  }
  EXPECT_EQ(drawn, (std::set<int64_t>{0, 1, 2}));
}

TEST(InputScale, ImagesShrinkInShapeAndTheirMeanStays) {
  torch::manual_seed(1);
  const Batch batch{torch::rand({2, 3, 160, 320}), torch::rand({2, 4, 5}), 2};
  const Batch small = shrunk(batch, 2);
  EXPECT_EQ(small.inputs.sizes(), (std::vector<int64_t>{2, 3, 96, 192}));
  EXPECT_TRUE(small.targets.equal(batch.targets)) << "boxes are parts of the image";
  EXPECT_NEAR(small.inputs.mean().item<double>(), batch.inputs.mean().item<double>(), 0.005);
}

TEST(InputScale, TheLargestAreCopiesToo) {
  const Batch batch{torch::rand({1, 3, 64, 64}), {}, 1};
  const Batch same = shrunk(batch, 0);
  EXPECT_TRUE(same.inputs.equal(batch.inputs));
  EXPECT_NE(same.inputs.data_ptr(), batch.inputs.data_ptr());
  const Batch last = shrunk(batch.to(torch::kCPU), 1);
  EXPECT_EQ(last.inputs.sizes(), (std::vector<int64_t>{1, 3, 32, 32}));
}

TEST(InputScale, ChannelsStayTogetherWhereTheyAre) {
  const Batch batch{torch::rand({2, 3, 64, 64}).contiguous(at::MemoryFormat::ChannelsLast), {}, 2};
  for (const int64_t steps : {0, 1})
    EXPECT_TRUE(shrunk(batch, steps).inputs.is_contiguous(at::MemoryFormat::ChannelsLast));
}

}  // namespace
}  // namespace autotrain
