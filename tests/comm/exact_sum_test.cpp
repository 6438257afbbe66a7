#include "comm/exact_sum.h"

#include <gtest/gtest.h>

#include <thread>

#include "support/lanes.h"

namespace autotrain {
namespace {

using test::lane_numbers;

// The sum of all lanes by so many ranks as threads: what each of them holds afterwards.
std::vector<torch::Tensor> sum_by(int64_t world, int64_t lanes, int64_t count) {
  const auto exchanges = make_thread_exchanges(world);
  std::vector<torch::Tensor> sums(static_cast<size_t>(world));
  std::vector<std::thread> ranks;
  for (int64_t rank = 0; rank < world; ++rank) {
    ranks.emplace_back([&, rank] {
      const int64_t own = lanes / world;
      LaneTree tree;
      for (int64_t lane = rank * own; lane < (rank + 1) * own; ++lane) tree.add(lane_numbers(count, lane));
      torch::Tensor flat = tree.take();
      ExactSum sum(*exchanges[static_cast<size_t>(rank)], {rank, world, ""}, count, flat.options());
      sum(flat);
      sums[static_cast<size_t>(rank)] = flat;
    });
  }
  for (std::thread& rank : ranks) rank.join();
  return sums;
}

TEST(ExactSum, AnyNumberOfRanksComesToTheSameBits) {
  for (const int64_t count : {1, 7, 64, 1001}) {
    for (const int64_t lanes : {4, 8}) {
      const torch::Tensor alone = sum_by(1, lanes, count)[0];
      for (int64_t world = 2; world <= lanes; world *= 2) {
        for (const torch::Tensor& sum : sum_by(world, lanes, count))
          EXPECT_TRUE(sum.equal(alone)) << world << " ranks, " << lanes << " lanes, " << count << " numbers";
      }
    }
  }
}

TEST(ExactSum, IsTheSum) {
  for (const int64_t world : {1, 2, 3, 5}) {
    torch::Tensor wanted = torch::zeros({100}, torch::kFloat64);
    torch::Tensor sizes = torch::zeros({100}, torch::kFloat64);
    for (int64_t lane = 0; lane < world; ++lane) {
      wanted += lane_numbers(100, lane);
      sizes += lane_numbers(100, lane).abs();
    }
    for (const torch::Tensor& sum : sum_by(world, world, 100))
      EXPECT_LT(((sum - wanted).abs() / sizes).max().item<double>(), 1e-6) << world;
  }
}

// The tree is needed: added one after the other, the same lanes come to other bits.
TEST(ExactSum, AddingOneAfterTheOtherIsAnotherSum) {
  torch::Tensor chain = lane_numbers(1001, 0);
  for (int64_t lane = 1; lane < 8; ++lane) chain += lane_numbers(1001, lane);
  EXPECT_FALSE(chain.equal(sum_by(1, 8, 1001)[0]));
}

TEST(LaneTree, AddsNeighboursFirst) {
  // 2²⁵ + 1 is not a float32: (a + b) + (c + d) keeps the two ones together, a chain loses both.
  const auto number = [](double value) { return torch::full({1}, value); };
  LaneTree tree;
  for (const double value : {33554432.0, 0.0, 1.0, 1.0}) tree.add(number(value));
  EXPECT_EQ(tree.take().item<float>(), 33554434.0f);
}

TEST(LaneTree, RanksShareLanesOnlyAsSubtrees) {
  for (const auto& [lanes, world] : {std::pair{1, 1}, {4, 1}, {4, 2}, {4, 4}, {8, 2}})
    EXPECT_TRUE(shares_lanes(lanes, world)) << lanes << ' ' << world;
  for (const auto& [lanes, world] : {std::pair{4, 3}, {6, 2}, {2, 4}, {0, 1}, {3, 3}})
    EXPECT_FALSE(shares_lanes(lanes, world)) << lanes << ' ' << world;
}

}  // namespace
}  // namespace autotrain
