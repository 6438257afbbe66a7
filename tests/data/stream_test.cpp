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
  EXPECT_EQ(cut.pieces(), 4);
  EXPECT_EQ(cut.cut(consecutive(50, 1000)),
            (std::vector<Piece>{consecutive(50, 300), consecutive(350, 300), consecutive(650, 300),
                                consecutive(950, 100)}));
  EXPECT_EQ((WindowCut{256, 256}).cut(consecutive(0, 256)), (std::vector<Piece>{consecutive(0, 256)}));
}

}  // namespace
}  // namespace autotrain
