#include "report/sparkline.h"

#include <gtest/gtest.h>

#include <limits>

namespace autotrain {
namespace {

TEST(Sparkline, RisesFromTheLowestBlockToTheFull) {
  EXPECT_EQ(sparkline({0, 1, 2, 3, 4, 5, 6, 7, 8}), "▁▂▃▄▅▆▇██");
  EXPECT_EQ(sparkline({5, 5}), "██");
}

TEST(Sparkline, LeavesASpaceForWhatIsNoValue) {
  EXPECT_EQ(sparkline({1, -1, std::numeric_limits<double>::quiet_NaN(), 1}), "█  █");
  EXPECT_EQ(sparkline({}), "");
  EXPECT_EQ(sparkline({0, 0}), "▁▁");
}

}  // namespace
}  // namespace autotrain
