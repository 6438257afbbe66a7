#include "model/rounding.h"

#include <ATen/ATen.h>

#include <gtest/gtest.h>

namespace autotrain {
namespace {

// Linear layers and convolutions, with inputs that fill no whole group, and outputs of very different size.
std::vector<torch::Tensor> some_weights() {
  torch::manual_seed(3);
  std::vector<torch::Tensor> weights;
  for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{
           {1, 1}, {5, 3}, {7, 64}, {16, 65}, {3, 127}, {8, 3, 3, 3}, {4, 16, 5, 5}, {6, 2, 3, 3, 3}}) {
    torch::Tensor weight = torch::randn(shape);
    weight[0].mul_(1e-4);
    weights.push_back(weight);
  }
  weights.push_back(torch::zeros({3, 8}));
  return weights;
}

// The scale of each number, in the weight's shape.
torch::Tensor spread(const torch::Tensor& scale, int64_t group, const torch::Tensor& weight) {
  const torch::Tensor each = scale.repeat_interleave(group, 1);
  return each.narrow(1, 0, weight.numel() / weight.size(0)).reshape(weight.sizes());
}

void expect_within_half(const torch::Tensor& weight, const torch::Tensor& back, const torch::Tensor& scales) {
  ASSERT_EQ(back.sizes(), weight.sizes());
  const torch::Tensor error = (back - weight).abs();
  EXPECT_TRUE(error.le(0.5 * scales * (1 + 1e-4)).all().item<bool>()) << weight.sizes();
}

TEST(Rounding, EightBitsAreOffByHalfAScaleAtMost) {
  for (const torch::Tensor& weight : some_weights()) {
    const Int8Weight stored = to_int8(weight);
    EXPECT_EQ(stored.scale.sizes(), torch::IntArrayRef({weight.size(0)}));
    const int64_t inputs = weight.numel() / weight.size(0);
    expect_within_half(weight, from_int8(stored), spread(stored.scale.unsqueeze(1), inputs, weight));
  }
}

TEST(Rounding, FourBitsAreOffByHalfAScaleAtMostWhateverTheGroup) {
  for (const torch::Tensor& weight : some_weights()) {
    for (const int64_t group : {2, 32, 64}) {
      const Int4Weight stored = to_int4(weight, group);
      expect_within_half(weight, from_int4(stored), spread(stored.scale, group, weight));
      const int64_t inputs = weight.numel() / weight.size(0), groups = (inputs + group - 1) / group;
      const int64_t filled = groups == 1 ? std::min(group, inputs + inputs % 2) : groups * group;
      EXPECT_EQ(stored.values.numel(), weight.size(0) * filled / 2) << "two to a byte";
    }
  }
}

TEST(Rounding, OutputsWithFewInputsAreNotFilledUpToAWholeGroup) {
  const torch::Tensor depthwise = torch::randn({64, 1, 1, 5});
  const Int4Weight stored = to_int4(depthwise, 128);
  EXPECT_EQ(stored.values.nbytes() + stored.scale.nbytes(), 64U * (3 + 4));
  EXPECT_EQ(from_int4(stored).sizes(), depthwise.sizes());
}

TEST(Rounding, WhatWasRoundedOnceStaysAsItIs) {
  for (const torch::Tensor& weight : some_weights()) {
    const torch::Tensor once = from_int8(to_int8(weight)), four = from_int4(to_int4(weight, 32));
    EXPECT_TRUE(to_int8(once).values.equal(to_int8(weight).values));
    EXPECT_TRUE(int4_values(to_int4(four, 32)).equal(int4_values(to_int4(weight, 32))));
  }
}

TEST(Rounding, TheLargestOfAnOutputIsTheLastStepAndItsSignIsKept) {
  const torch::Tensor weight = torch::tensor({{0.5f, -2.0f, 0.0f}, {1.5f, 0.0f, -6.0f}});
  EXPECT_TRUE(to_int8(weight).values.equal(torch::tensor({{32, -127, 0}, {32, 0, -127}}, torch::kInt8)));
  const Int4Weight four = to_int4(weight, 4);
  EXPECT_TRUE(int4_values(four).equal(torch::tensor({{10, 1, 8, 8}, {10, 8, 1, 8}}, torch::kUInt8)))
      << int4_values(four);
  EXPECT_EQ(four.values[0][0][0].item<int64_t>(), 10 + 16 * 1) << "the first of two in the lower half";
}

TEST(Rounding, TwoOfFourInputsStayTheLargestOnes) {
  const torch::Tensor weight = torch::tensor({{1.0f, -4.0f, 3.0f, 2.0f, 0.1f, 0.0f, 0.0f, -0.2f}});
  EXPECT_TRUE(from_sparse(to_sparse(weight))
                  .equal(torch::tensor({{0.0f, -4.0f, 3.0f, 0.0f, 0.1f, 0.0f, 0.0f, -0.2f}})));
  torch::manual_seed(4);
  const torch::Tensor random = torch::randn({6, 32});
  const torch::Tensor left = from_sparse(to_sparse(random)).view({6, 8, 4});
  EXPECT_TRUE(left.ne(0).sum(2).eq(2).all().item<bool>());
  const torch::Tensor gone = random.view({6, 8, 4}) - left;
  EXPECT_TRUE(gone.abs().amax(2).le(left.abs().masked_fill(left.eq(0), 1e9).amin(2)).all().item<bool>());
}

TEST(Rounding, AMaskOfAnyShapeComesBackFromItsBits) {
  torch::manual_seed(6);
  for (const torch::Tensor& weight : some_weights()) {
    const torch::Tensor mask = torch::rand(weight.sizes()).gt(0.5), bits = to_bits(mask);
    EXPECT_EQ(bits.numel(), weight.size(0) * ((weight.numel() / weight.size(0) + 7) / 8))
        << "eight to a byte";
    EXPECT_TRUE(from_bits(bits, weight.sizes()).equal(mask));
  }
  EXPECT_EQ(to_bits(torch::tensor({{true, false, true}})).item<int64_t>(), 1 + 4)
      << "the first is the lowest";
}

TEST(Rounding, FoursOfAConvolutionAreChannelsAtOnePixel) {
  torch::manual_seed(5);
  const torch::Tensor weight = torch::randn({3, 8, 3, 2});
  const torch::Tensor left = from_sparse(to_sparse(weight));
  EXPECT_TRUE(left.view({3, 2, 4, 3, 2}).ne(0).sum(2).eq(2).all().item<bool>());
  EXPECT_TRUE(left.eq(weight).logical_or(left.eq(0)).all().item<bool>());
  EXPECT_FALSE(has_groups_of_four({3, 6, 3, 2}));
  EXPECT_FALSE(has_groups_of_four({8}));
  EXPECT_TRUE(has_groups_of_four({3, 8}));
}

}  // namespace
}  // namespace autotrain
