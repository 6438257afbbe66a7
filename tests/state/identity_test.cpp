#include "state/identity.h"

#include <gtest/gtest.h>

#include "support/support.h"

namespace autotrain {
namespace {

const Identity kThen = {{"device", "A"}, {"threads", "2"}, {"deterministic", "yes"}};

TEST(Identity, TheSameFactsAreExact) {
  EXPECT_EQ(exactness(kThen, kThen), "exact");
}

TEST(Identity, WhatDiffersIsNamed) {
  Identity now = kThen;
  now["threads"] = "4";
  now["device"] = "B";
  EXPECT_EQ(exactness(kThen, now), "equal to rounding, because device is B, was A; threads is 4, was 2");
}

TEST(Identity, WithoutDeterminismNothingIsExact) {
  Identity loose = kThen;
  loose["deterministic"] = "no";
  EXPECT_TRUE(test::holds(exactness(loose, loose), "execution.deterministic is off"));
}

}  // namespace
}  // namespace autotrain
