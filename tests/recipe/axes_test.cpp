#include "recipe/axes.h"

#include <gtest/gtest.h>

namespace autotrain {
namespace {

using Sizes = std::vector<int64_t>;

TEST(Axes, BatchesAreAscendingAndEachOnce) {
  EXPECT_EQ(parse_batches("1,32,128,512")->sizes, (Sizes{1, 32, 128, 512}));
  EXPECT_EQ(parse_batches(" 64, 1,64 ")->sizes, (Sizes{1, 64}));
  EXPECT_FALSE(parse_batches("1,32")->until_no_gain);
}

TEST(Axes, ARangeIsDoubledAndEndsAtItsEnd) {
  EXPECT_EQ(parse_batches("1..8")->sizes, (Sizes{1, 2, 4, 8}));
  EXPECT_EQ(parse_batches("3..20")->sizes, (Sizes{3, 6, 12, 20}));
  EXPECT_EQ(parse_batches("5..5")->sizes, (Sizes{5}));
}

TEST(Axes, AutoGoesOnWhileSomethingIsGained) {
  EXPECT_TRUE(parse_batches("auto")->until_no_gain);
  EXPECT_EQ(parse_batches("auto")->sizes.front(), 1);
}

TEST(DeviceFigures, AreReadInPowersOfAThousand) {
  EXPECT_EQ(parse_device_figures("65TFLOP/s,300GB/s"), (DeviceFigures{65e12, 300e9}));
  EXPECT_EQ(parse_device_figures(" 1.5 PFLOP/s , 3350 GB/s"), (DeviceFigures{1.5e15, 3350e9}));
  EXPECT_EQ(parse_device_figures("7FLOP/s,2B/s"), (DeviceFigures{7, 2}));
  for (const char* text :
       {"", "65TFLOP/s", "300GB/s,65TFLOP/s", "65,300", "-1TFLOP/s,300GB/s", "0FLOP/s,1B/s",
        "xTFLOP/s,300GB/s", "65TFLOP/s,300GB/s,1B/s", "65TFLOPS,300GB/s", "1e12FLOP/s,3B/s"})
    EXPECT_FALSE(parse_device_figures(text)) << text;
}

TEST(Axes, WhatIsNoBatchIsRefused) {
  for (const char* text :
       {"", "0", "-1", "1,,2", "1,x", "8..1", "1..", "..4", "0..4", "1.5", "99999999999", "1..2..3"})
    EXPECT_FALSE(parse_batches(text)) << text;
}

TEST(Axes, AKeyHasItsValuesInTheirOrder) {
  const auto axis = parse_axis("model.width=256, 64");
  EXPECT_EQ(axis->key, "model.width");
  EXPECT_EQ(axis->values, (std::vector<std::string>{"256", "64"}));
  EXPECT_EQ(parse_axis("a=1,2,1")->values, (std::vector<std::string>{"1", "2"})) << "once is enough";
}

TEST(Axes, AListInBracketsIsOneValue) {
  const auto axis = parse_axis("data.train.shape=[3, 32,32], [3,64,64]");
  EXPECT_EQ(axis->keys(), (std::vector<std::string>{"data.train.shape"}));
  EXPECT_EQ(axis->values, (std::vector<std::string>{"[3, 32,32]", "[3,64,64]"}));
  EXPECT_EQ(parse_axis("a=[[1,2],[3]],{b: 1, c: 2},4")->values,
            (std::vector<std::string>{"[[1,2],[3]]", "{b: 1, c: 2}", "4"}));
}

TEST(Axes, SeveralKeysTakeTheSameValues) {
  const auto axis = parse_axis("data.train.size, data.validation.size=[8,8],[16,16]");
  EXPECT_EQ(axis->key, "data.train.size,data.validation.size");
  EXPECT_EQ(axis->keys(), (std::vector<std::string>{"data.train.size", "data.validation.size"}));
  EXPECT_EQ(axis->values.size(), 2u);
}

TEST(Axes, WhatIsNoAxisIsRefused) {
  for (const char* text :
       {"", "model.width", "=1,2", "a=", "a=1,", "a=[1,2", "a=1,2]", "a=[1,{2]}", "a,=1", ",a=1"})
    EXPECT_FALSE(parse_axis(text)) << text;
}

}  // namespace
}  // namespace autotrain
