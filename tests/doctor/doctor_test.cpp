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
}

}  // namespace
}  // namespace autotrain
