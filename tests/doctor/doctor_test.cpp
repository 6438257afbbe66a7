#include "doctor/doctor.h"

#include <gtest/gtest.h>

namespace autotrain {
namespace {

TEST(Doctor, AMicroBatchThatFewerSamplesMakeHardlyShorterIsBoundByLaunches) {
  const SizeRate whole{64, 6400};  // ten milliseconds
  EXPECT_TRUE(bound_by_launches(whole, {16, 1600})) << "the same ten";
  EXPECT_TRUE(bound_by_launches(whole, {16, 1900}));
  EXPECT_FALSE(bound_by_launches(whole, {16, 6400})) << "a quarter of them";
  EXPECT_FALSE(bound_by_launches(whole, {16, 2100}));
  EXPECT_FALSE(bound_by_launches(whole, {16, 800})) << "twice the time of all: the machine had other work";
}

TEST(Doctor, WhereLoadingAloneIsFarFasterThanTrainingNothingWaitsForIt) {
  EXPECT_TRUE(loading_may_hold_back(/*loading_rate=*/1000, /*training_rate=*/900));
  EXPECT_TRUE(loading_may_hold_back(1000, 1100)) << "of which a clock may say that it was slower";
  EXPECT_FALSE(loading_may_hold_back(2.5e5, 8e3));
}

}  // namespace
}  // namespace autotrain
