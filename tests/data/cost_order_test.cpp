#include "data/cost_order.h"

#include <numeric>

#include "data/loader.h"
#include "support/ragged.h"

namespace autotrain {
namespace {

using test::Ragged;
using test::random_lengths;

std::vector<int64_t> costs_of(const Ragged& data, const Stream& stream, const Piece& piece) {
  std::vector<int64_t> costs;
  for (const int64_t index : stream.draw(piece).indices) costs.push_back(data.length(index));
  return costs;
}

TEST(CostOrder, EveryWindowHasExactlyItsSamplesEachOnceHoweverItIsCut) {
  Random random(1);
  for (int round = 0; round < 300; ++round) {
    const int64_t size = 1 + random.below(60), samples = 1 + random.below(size);
    const WindowCut cut{samples, 1 + random.below(samples)};
    const Ragged data(random_lengths(size, random), /*silent=*/round % 4 == 0);
    const Stream stream(7, size, /*shuffle=*/round % 3 != 0);
    const int64_t start = random.below(200);
    const PieceSource source = endless_windows(data, stream, cut, start);
    for (int64_t window = 0; window < 4; ++window) {
      Piece all;
      for (int64_t i = 0; i < cut.most_pieces(); ++i) {
        const Piece piece = *source();
        EXPECT_EQ(piece.samples(), std::min(cut.micro_batch, samples - all.samples()));
        all.positions.insert(all.positions.end(), piece.positions.begin(), piece.positions.end());
      }
      const std::vector<int64_t> costs = costs_of(data, stream, all);
      EXPECT_TRUE(!has_costs(data) || std::ranges::is_sorted(costs, std::greater<>()));
      std::ranges::sort(all.positions);
      EXPECT_EQ(all, consecutive(start + window * samples, samples));
    }
  }
}

TEST(CostOrder, EqualCostsKeepTheOrderOfTheStream) {
  const Ragged data({3, 5, 3, 5, 1});
  const Piece window = window_of(data, Stream(0, 5, false), 3, 5);  // costs 5 1 3 5 3
  EXPECT_EQ(window.positions, (std::vector<int64_t>{3, 6, 5, 7, 4}));
  const Ragged alike({3, 5, 3}, /*silent=*/true);
  EXPECT_EQ(window_of(alike, Stream(0, 3, true), 2, 3), consecutive(2, 3));
}

TEST(CostOrder, NoPieceOfAnyWindowTakesMoreThanThatOfTheCostliest) {
  Random random(2);
  for (int round = 0; round < 100; ++round) {
    const int64_t size = 1 + random.below(60), samples = 1 + random.below(size);
    const WindowCut cut{samples, 1 + random.below(samples)};
    const Ragged data(random_lengths(size, random));
    const Stream in_order(0, size, false), stream(5, size, true);
    const auto worst = cut.cut(costliest_window(data, samples));
    EXPECT_EQ(costs_of(data, in_order, worst[0])[0], data.longest());
    for (int64_t position = 0; position < 2 * size; ++position) {
      const auto pieces = cut.cut(window_of(data, stream, position, samples));
      ASSERT_EQ(pieces.size(), worst.size());
      for (size_t i = 0; i < pieces.size(); ++i) {
        const auto some = costs_of(data, stream, pieces[i]), most = costs_of(data, in_order, worst[i]);
        for (size_t j = 0; j < some.size(); ++j) ASSERT_LE(some[j], most[j]);
      }
    }
  }
}

TEST(CostOrder, TheCostliestStandsInTwoEpochsAndInMoreOfALargerWindow) {
  const Ragged data({2, 9, 4});
  EXPECT_EQ(costliest_window(data, 3).positions, (std::vector<int64_t>{1, 4, 2}));
  EXPECT_EQ(costliest_window(data, 5).positions, (std::vector<int64_t>{1, 4, 7, 2, 5}));
}

TEST(CostOrder, OnePassHasEverySampleOnceAndTheCostliestFirst) {
  Random random(3);
  for (const bool silent : {false, true}) {
    const Ragged data(random_lengths(41, random), silent);
    const PieceSource source = one_pass(data, 6);
    std::vector<int64_t> seen;
    while (const auto piece = source()) {
      EXPECT_EQ(piece->samples(), std::min<int64_t>(6, 41 - std::ssize(seen)));
      seen.insert(seen.end(), piece->positions.begin(), piece->positions.end());
    }
    EXPECT_TRUE(silent || data.length(seen[0]) == data.longest());
    std::ranges::sort(seen);
    EXPECT_EQ(seen, consecutive(0, 41).positions);
  }
}

}  // namespace
}  // namespace autotrain
