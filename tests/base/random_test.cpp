#include "base/random.h"

#include <gtest/gtest.h>

#include <set>

namespace autotrain {
namespace {

TEST(Random, KeysDependOnOrderAndCountOfNumbers) {
  std::set<uint64_t> keys = {derive_key(1),    derive_key(1, 0), derive_key(0, 1),
                             derive_key(1, 2), derive_key(2, 1), derive_key(1, 2, 0)};
  EXPECT_EQ(keys.size(), 6u);
}

// The vectors that its authors publish: http://www.isthe.com/chongo/tech/comp/fnv
TEST(Random, TheHashIsFnv1aAndGoesOnWhereItStopped) {
  EXPECT_EQ(fnv1a(""), 0xcbf29ce484222325ULL);
  EXPECT_EQ(fnv1a("a"), 0xaf63dc4c8601ec8cULL);
  EXPECT_EQ(fnv1a("foobar"), 0x85944171f73967e8ULL);
  EXPECT_EQ(fnv1a("bar", fnv1a("foo")), fnv1a("foobar"));
}

TEST(Random, SkippingDrawsIsDrawingThem) {
  Random drawn(5), skipped(5);
  for (int i = 0; i < 1001; ++i) drawn.next();
  skipped.skip(1001);
  EXPECT_EQ(skipped.next(), drawn.next());
}

TEST(Random, BelowCoversItsRangeEvenly) {
  Random random(42);
  std::vector<int> counts(7);
  constexpr int kDraws = 70000;
  for (int i = 0; i < kDraws; ++i) ++counts[static_cast<size_t>(random.below(7))];
  // Binomial with mean 10,000 and deviation 93; five deviations.
  for (const int count : counts) EXPECT_NEAR(count, kDraws / 7, 465);
}

TEST(Random, NormalHasMeanZeroAndDeviationOne) {
  Random random(7);
  double sum = 0, squares = 0;
  constexpr int kDraws = 100000;
  for (int i = 0; i < kDraws; ++i) {
    const double value = random.normal();
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / kDraws, 0, 0.016);  // five deviations of the mean
  EXPECT_NEAR(squares / kDraws, 1, 0.023);
}

}  // namespace
}  // namespace autotrain
