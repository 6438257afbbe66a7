#include "loop/rank_totals.h"

#include <gtest/gtest.h>

#include "support/support.h"
#include "trainer/advice.h"

namespace autotrain {
namespace {

TEST(RankTotals, CountWhoWaitsForWhom) {
  RankTotals totals;
  EXPECT_EQ(totals.wait_fraction(), 0);
  const RankTimes first = totals.count({1, 4, 1});
  EXPECT_EQ(first.fastest, 1);
  EXPECT_EQ(first.mean, 2);
  EXPECT_EQ(first.slowest, 4);
  EXPECT_EQ(first.slowest_rank, 1);
  totals.count({2, 1, 0});
  ASSERT_EQ(totals.ranks().size(), 3U);
  EXPECT_EQ(totals.ranks()[1].seconds, 5);
  EXPECT_EQ(totals.ranks()[1].slowest, 1);
  EXPECT_EQ(totals.ranks()[2].slowest, 0);
  // Of six seconds that the slowest ranks took, the three had three on average.
  EXPECT_DOUBLE_EQ(totals.wait_fraction(), 0.5);
}

TEST(RankTotals, OnlyOneThatIsTheSlowestAgainAndAgainIsNamed) {
  const auto summary = [](const std::vector<std::vector<double>>& windows) {
    RankTotals totals;
    for (const auto& window : windows) totals.count(window);
    Summary s{.ranks = totals.ranks()};
    for (RankSummary& rank : s.ranks) rank.host = "node7";
    return s;
  };
  EXPECT_EQ(straggler_advice({}), "");
  EXPECT_EQ(straggler_advice(summary({{1, 1.1}, {1, 1.1}})), "") << "hardly slower";
  EXPECT_EQ(straggler_advice(summary({{1, 9}, {1, 0.9}, {1, 0.9}})), "") << "once";
  const std::string named = straggler_advice(summary({{1, 2}, {1, 2}, {1, 2}}));
  EXPECT_TRUE(test::holds(named, "rank 1 on node7 takes 2 times as long")) << named;
}

}  // namespace
}  // namespace autotrain
