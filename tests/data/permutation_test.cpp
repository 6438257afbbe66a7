#include "data/permutation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"

namespace autotrain {
namespace {

TEST(Permutation, IsABijectionAtEverySize) {
  for (const int64_t n : {1, 2, 3, 4, 5, 7, 8, 63, 64, 65, 1000, 4096, 60000}) {
    const Permutation permutation(derive_key(9, n), n);
    std::vector<bool> seen(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) {
      const int64_t j = permutation(i);
      ASSERT_TRUE(j >= 0 && j < n) << n;
      ASSERT_FALSE(seen[static_cast<size_t>(j)]) << n;
      seen[static_cast<size_t>(j)] = true;
    }
  }
}

TEST(Permutation, KeysGiveUnrelatedOrders) {
  constexpr int64_t n = 10000;
  const Permutation a(1, n), b(2, n);
  int64_t equal = 0;
  for (int64_t i = 0; i < n; ++i) equal += a(i) == b(i) ? 1 : 0;
  EXPECT_LT(equal, 10);  // one is expected
}

// Neighbours in the order must not be neighbours in the data: the mean distance of uniform draws is
// n/3, and no lag may correlate.
TEST(Permutation, MixesLikeARandomOrder) {
  constexpr int64_t n = 30000;
  for (uint64_t key = 0; key < 5; ++key) {
    const Permutation permutation(key, n);
    double distance = 0, product = 0;
    const double mean = (n - 1) / 2.0, variance = (static_cast<double>(n) * n - 1) / 12;
    for (int64_t i = 0; i + 1 < n; ++i) {
      const auto x = static_cast<double>(permutation(i)), y = static_cast<double>(permutation(i + 1));
      distance += std::abs(x - y);
      product += (x - mean) * (y - mean);
    }
    EXPECT_NEAR(distance / (n - 1) / n, 1.0 / 3, 0.01);
    EXPECT_NEAR(product / (n - 1) / variance, 0, 5 / std::sqrt(n));
  }
}

TEST(Permutation, WorksFarBeyondMemory) {
  const int64_t n = int64_t{1} << 50;
  const Permutation permutation(3, n);
  EXPECT_NE(permutation(0), permutation(1));
  EXPECT_LT(permutation(n - 1), n);
}

}  // namespace
}  // namespace autotrain
