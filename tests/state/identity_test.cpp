#include "state/identity.h"

#include <gtest/gtest.h>

#include "base/files.h"
#include "state/data_files.h"
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

TEST(Identity, ValidationDataAreOthersByTheirSizeAndTheirFiles) {
  const test::TemporaryFolder folder;
  const std::string train = (folder / "train.csv").string(),
                    validation = (folder / "validation.csv").string();
  for (const std::string& file : {train, validation}) write_file(file, "x,y\n1,2\n");
  Recipe r;
  r.data.train = {"table", {{"file", train}}};
  const Identity before = {{"validation data", "1 samples"},
                           {fact_of_file(train), "12 bytes, 1"},
                           {fact_of_file(validation), "12 bytes, 1"}};
  const auto changed = [&](const std::string& fact) {
    Identity now = before;
    now[fact] = "another";
    return validates_on_others(before, now, r);
  };
  EXPECT_TRUE(changed("validation data"));
  EXPECT_FALSE(changed(fact_of_file(validation))) << "there are none";
  r.data.validation = Choice{"table", {{"file", validation}}};
  EXPECT_TRUE(changed(fact_of_file(validation)));
  EXPECT_FALSE(changed(fact_of_file(train)));
  EXPECT_FALSE(validates_on_others({}, before, r)) << "of a version that did not note it";
}

}  // namespace
}  // namespace autotrain
