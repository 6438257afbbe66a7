#include "study/halving.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/random.h"
#include "study/study.h"
#include "support/support.h"

namespace autotrain {
namespace {

using Points = std::vector<size_t>;

// Adds the same costs for every seed of the points that run in a rung.
void finish_rung(Halving& halving, size_t rung, size_t seeds, const std::vector<double>& costs) {
  for (const size_t point : Points(halving.running(rung))) {
    for (size_t seed = 0; seed < seeds; ++seed) halving.add(rung, point, costs.at(point));
  }
}

TEST(Halving, RungsGrowByTheFactorAndShrinkByIt) {
  const Halving nine(9, 1), one(1, 1), two(2, 1), many(100, 1);
  ASSERT_EQ(nine.rungs(), 3u);
  EXPECT_DOUBLE_EQ(nine.share(0), 1.0 / 9);
  EXPECT_DOUBLE_EQ(nine.work(1), 1.0 / 3 - 1.0 / 9);
  EXPECT_EQ(nine.share(2), 1);
  EXPECT_EQ(nine.running(1).size(), 3u);
  EXPECT_EQ(nine.running(2).size(), 1u);
  EXPECT_EQ(one.rungs(), 1u);
  EXPECT_EQ(two.rungs(), 1u) << "nothing to be left out by a third";
  ASSERT_EQ(many.rungs(), 4u) << "no more than that, however many points";
  EXPECT_EQ(many.running(3).size(), 4u);
  double work = 0;
  for (size_t rung = 0; rung < many.rungs(); ++rung) work += many.work(rung);
  EXPECT_DOUBLE_EQ(work, 1);
}

TEST(Halving, AsManyAsAreToBeToldApartGoOnAndThePlannedWorkSaysSo) {
  const Halving three(3, 2, {.least_survivors = 2}), nine(9, 2, {.least_survivors = 2}),
      two(2, 2, {.least_survivors = 2}), one(1, 2, {.least_survivors = 2});
  EXPECT_EQ(three.running(1).size(), 2u);
  EXPECT_EQ(nine.running(1).size(), 3u);
  EXPECT_EQ(nine.running(2).size(), 2u);
  EXPECT_EQ(two.running(0).size(), 2u);
  EXPECT_EQ(one.running(0).size(), 1u) << "no more than there are";
  EXPECT_DOUBLE_EQ(one.planned_work(), 2);
  EXPECT_DOUBLE_EQ(three.planned_work(), 2 * (3.0 / 3 + 2 * 2.0 / 3)) << "a third of all, the rest of two";
}

TEST(Halving, TheBestByTheMedianOverSeedsGoOn) {
  Halving halving(4, 3, {.factor = 2});
  const std::vector<std::vector<double>> costs = {{1, 1, 9}, {0, 5, 5}, {2, 2, 2}, {3, 3, 3}};
  for (size_t point = 0; point < 4; ++point) {
    for (const double cost : costs[point]) halving.add(0, point, cost);
  }
  EXPECT_EQ(halving.median(0, 0), 1);
  EXPECT_EQ(halving.running(1), (Points{0, 2}));  // of means it would be points 2 and 3
  EXPECT_TRUE(halving.is_over(0));
  EXPECT_FALSE(halving.is_over(1));
  EXPECT_TRUE(halving.wanted(1, 2));
  EXPECT_FALSE(halving.wanted(1, 1));
}

TEST(Halving, AFailedRunIsWorseThanAnyOtherAndMostlyFailedPointsNeverGoOn) {
  Halving halving(3, 3, {.factor = 2});
  for (const double cost : {1.0, double(NAN), 1.0}) halving.add(0, 0, cost);
  for (const double cost : {0.0, double(NAN), double(INFINITY)}) halving.add(0, 1, cost);
  for (int seed = 0; seed < 3; ++seed) halving.add(0, 2, NAN);
  EXPECT_EQ(halving.running(1), Points{0}) << "though two might go on";
  EXPECT_EQ(halving.median(0, 2), INFINITY);
  Halving pair(1, 2);
  for (int seed = 0; seed < 2; ++seed) pair.add(0, 0, NAN);
  EXPECT_EQ(pair.median(0, 0), INFINITY) << "that of two";
}

TEST(Halving, BeforeARungIsOverAsManyPointsAreExpectedAsWillGoOn) {
  Halving halving(9, 1);
  for (size_t point = 0; point < 8; ++point) halving.add(0, point, 8.0 - static_cast<double>(point));
  EXPECT_EQ(halving.running(1), (Points{0, 1, 2}));
  halving.add(0, 8, 0);
  EXPECT_EQ(halving.running(1), (Points{6, 7, 8}));
  EXPECT_EQ(halving.running(2), Points{6});
}

TEST(Halving, OrdersOfArrivalDoNotMatterAndTiesGoToTheFirst) {
  Halving forwards(4, 1, {.factor = 2}), backwards = forwards;
  for (size_t i = 0; i < 4; ++i) {
    forwards.add(0, i, 1);
    backwards.add(0, 3 - i, 1);
  }
  EXPECT_EQ(forwards.running(1), (Points{0, 1}));
  EXPECT_EQ(backwards.running(1), forwards.running(1));
}

// Costs fall as runs get longer, and the order of the points is the same throughout.
TEST(Halving, FindsTheBestPointWhereShortRunsTellTheOrder) {
  Random random(3);
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<double> costs(27);
    for (double& cost : costs) cost = random.uniform();
    Halving halving(costs.size(), 2);
    for (size_t rung = 0; rung < halving.rungs(); ++rung) finish_rung(halving, rung, 2, costs);
    const auto best = static_cast<size_t>(std::ranges::min_element(costs) - costs.begin());
    EXPECT_EQ(halving.running(halving.rungs() - 1), Points{best});
  }
}

// As a study does it, stopped after every run and begun anew.
TEST(Halving, AStudyThatIsStoppedAgainAndAgainDecidesAsItWouldHave) {
  const test::TemporaryFolder folder;
  constexpr size_t kPoints = 4;
  std::vector<std::string> left;
  for (int attempt = 0; attempt < 20; ++attempt) {
    Halving halving(kPoints, 1, {.factor = 2});
    std::vector<StudyRun> runs;
    std::map<std::string, std::pair<size_t, size_t>> places;
    for (size_t rung = 0; rung < halving.rungs(); ++rung) {
      for (size_t point = 0; point < kPoints; ++point) {
        const std::string name = "p" + std::to_string(point) + "-r" + std::to_string(rung);
        places[name] = {rung, point};
        runs.push_back({.name = name, .variant = name, .definition = {}, .work = [point] {
                          return nlohmann::ordered_json(std::abs(static_cast<double>(point) - 2.2));
                        }});
      }
    }
    bool stopped = false;
    const auto results = run_study(runs, {.folder = folder / "study",
                                          .wanted =
                                              [&](const StudyRun& run) {
                                                const auto& [rung, point] = places.at(run.name);
                                                return !stopped && halving.wanted(rung, point);
                                              },
                                          .on_result =
                                              [&](const StudyResult& result) {
                                                const auto& [rung, point] = places.at(result.name);
                                                halving.add(rung, point, result.value.get<double>());
                                                stopped |= !result.kept;
                                              }});
    left.clear();
    for (const StudyResult& result : results) left.push_back(result.name);
    if (!stopped) break;
  }
  EXPECT_EQ(left, (std::vector<std::string>{"p0-r0", "p1-r0", "p2-r0", "p3-r0", "p2-r1", "p3-r1", "p2-r2"}));
}

}  // namespace
}  // namespace autotrain
