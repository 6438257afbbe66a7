#include "data/stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/random.h"

namespace autotrain {
namespace {

TEST(Stream, EveryEpochVisitsEverySampleOnceInAnotherOrder) {
  const Stream stream(1, 50, true);
  const Stream::Draw two = stream.draw(consecutive(0, 100));
  const std::vector<int64_t> first(two.indices.begin(), two.indices.begin() + 50);
  const std::vector<int64_t> second(two.indices.begin() + 50, two.indices.end());
  EXPECT_EQ(std::set<int64_t>(first.begin(), first.end()).size(), 50u);
  EXPECT_EQ(std::set<int64_t>(second.begin(), second.end()).size(), 50u);
  EXPECT_NE(first, second);
  EXPECT_EQ(two.epochs[49], 0);
  EXPECT_EQ(two.epochs[50], 1);
}

TEST(Stream, AnyPieceIsAPartOfTheWhole) {
  const Stream stream(5, 37, true);
  const Stream::Draw whole = stream.draw(consecutive(0, 400));
  Random random(3);
  for (int i = 0; i < 200; ++i) {
    const int64_t position = random.below(380);
    const int64_t samples = 1 + random.below(400 - position);
    const Stream::Draw part = stream.draw(consecutive(position, samples));
    EXPECT_TRUE(std::equal(part.indices.begin(), part.indices.end(), whole.indices.begin() + position));
    EXPECT_TRUE(std::equal(part.epochs.begin(), part.epochs.end(), whole.epochs.begin() + position));
  }
}

TEST(Stream, WithoutShufflingKeepsTheOrder) {
  const Stream::Draw drawn = Stream(1, 3, false).draw(consecutive(2, 4));
  EXPECT_EQ(drawn.indices, (std::vector<int64_t>{2, 0, 1, 2}));
}

TEST(Stream, SamplesOfAPieceMayStandAnywhere) {
  const Stream stream(2, 7, true);
  const Stream::Draw whole = stream.draw(consecutive(0, 21));
  const std::vector<int64_t> positions = {20, 3, 8, 4, 13, 14, 0};
  const Stream::Draw drawn = stream.draw({positions});
  for (size_t i = 0; i < positions.size(); ++i) {
    EXPECT_EQ(drawn.indices[i], whole.indices[static_cast<size_t>(positions[i])]);
    EXPECT_EQ(drawn.epochs[i], positions[i] / 7);
  }
}

TEST(WindowCut, PiecesCoverTheWindowWithOneRemainder) {
  const WindowCut cut{1000, 300};
  EXPECT_EQ(cut.most_pieces(), 4);
  EXPECT_EQ(cut.cut(consecutive(50, 1000)),
            (std::vector<Piece>{consecutive(50, 300), consecutive(350, 300), consecutive(650, 300),
                                consecutive(950, 100)}));
  EXPECT_EQ((WindowCut{256, 256}).cut(consecutive(0, 256)), (std::vector<Piece>{consecutive(0, 256)}));
}

// Over all ranks every sample stands in one lane, whoever has it, and shares differ by one sample at most.
TEST(WindowCut, LanesShareTheWindowOutWhoeverHasThem) {
  Random random(3);
  for (int i = 0; i < 300; ++i) {
    const int64_t lanes = int64_t{1} << random.below(5), samples = lanes + random.below(300);
    const WindowCut alone{samples, 1 + random.below(40), {lanes, 0, lanes}};
    const Piece window = consecutive(1000, samples);
    const std::vector<Piece> wanted = alone.cut(window);
    EXPECT_LE(std::ssize(wanted), alone.most_pieces());
    for (int64_t ranks = 1; ranks <= lanes; ranks *= 2) {
      std::vector<Piece> pieces;
      int64_t least = samples, most = 0;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        WindowCut cut = alone;
        cut.lanes = {lanes, rank * (lanes / ranks), lanes / ranks};
        std::ranges::move(cut.cut(window), std::back_inserter(pieces));
        least = std::min(least, cut.share()), most = std::max(most, cut.share());
      }
      EXPECT_EQ(pieces, wanted);
      EXPECT_LE(most - least, 1) << samples << " by " << ranks << " of " << lanes;
    }
    std::vector<int64_t> positions;
    for (const Piece& piece : wanted)
      positions.insert(positions.end(), piece.positions.begin(), piece.positions.end());
    std::ranges::sort(positions);
    EXPECT_EQ(positions, window.positions);
  }
}

// Where the window is sorted by cost, no lane has all the costly ones.
TEST(WindowCut, SamplesAreDealtInTurns) {
  const WindowCut cut{10, 2, {4, 0, 4}};
  EXPECT_EQ(cut.cut(consecutive(0, 10)),
            (std::vector<Piece>{{{0, 4}}, {{1, 5}}, {{8}}, {{2, 6}}, {{3, 7}}, {{9}}}));
  EXPECT_EQ(cut.lane_offset(1), 2);
  EXPECT_EQ(cut.lane_samples(1), 3);
}

}  // namespace
}  // namespace autotrain
