#include "plan/cut.h"

#include <gtest/gtest.h>

#include "autotrain/plan.h"
#include "base/units.h"
#include "plan/plan_enums.h"

namespace autotrain {
namespace {

TEST(Cut, EvenPiecesAreAsManyAsFullOnesAndNearlyEqual) {
  for (int64_t share = 1; share <= 300; ++share) {
    for (int64_t capacity = 1; capacity <= share + 3; ++capacity) {
      const int64_t m = executed_micro_batch({.share = share, .capacity = capacity});
      const int64_t pieces = ceil_div(share, m);
      ASSERT_LE(m, capacity);
      ASSERT_EQ(pieces, ceil_div(share, std::min(share, capacity)));
      ASSERT_LT(m - remainder_of(share, m), pieces) << share << " by " << capacity;
    }
  }
}

TEST(Cut, FullPiecesAreTheCapacity) {
  EXPECT_EQ(executed_micro_batch({.share = 1000, .capacity = 300, .cut = Cut::kFull}), 300);
  EXPECT_EQ(executed_micro_batch({.share = 100, .capacity = 300, .cut = Cut::kFull}), 100);
}

TEST(Cut, NoPieceOfOneSampleIsLeftForBatchNormalisation) {
  for (int64_t share = 2; share <= 300; ++share) {
    for (int64_t capacity = 3; capacity <= share; ++capacity) {
      for (const Cut cut : {Cut::kEven, Cut::kFull}) {
        const int64_t m =
            executed_micro_batch({.share = share, .capacity = capacity, .cut = cut, .minimum = 2});
        ASSERT_LE(m, capacity);
        bool possible = false;
        for (int64_t size = 2; size <= capacity; ++size) possible |= remainder_of(share, size) >= 2;
        ASSERT_EQ(remainder_of(share, m) >= 2, possible) << share << " by " << capacity;
      }
    }
  }
}

TEST(Cut, InWordsHasAsManySamplesAsTheWindow) {
  BatchPlan plan;
  plan.effective_batch = 256, plan.micro_batch = 41;
  EXPECT_EQ(window_in_words(plan), "6 × 41 + 10");
  plan.micro_batch = 64;
  EXPECT_EQ(window_in_words(plan), "4 × 64");
  plan.world_size = plan.lanes = 2;
  EXPECT_EQ(window_in_words(plan), "2 × 64");
  plan.lanes = 4, plan.micro_batch = 48;
  EXPECT_EQ(window_in_words(plan), "2 lanes of 1 × 48 + 16");
}

}  // namespace
}  // namespace autotrain
