#include "loop/divergence.h"

#include <cmath>

#include "support/support.h"

namespace autotrain {
namespace {

Recipe with_policy(DivergencePolicy policy) {
  Recipe recipe;
  recipe.divergence.policy = policy;
  recipe.stop.max_skipped = 3;
  return recipe;
}

const UpdateOutcome kBadLoss{.loss = std::nan(""), .scale = 65536};
const UpdateOutcome kOverflow{.loss = 0.5, .grad_norm = INFINITY, .scale = 65536};

TEST(AfterSkip, EndsARunOrRollsItBackAtTheLastSkipThatIsAllowed) {
  for (const auto& [policy, at_last] : {std::pair{DivergencePolicy::kSkip, AfterSkip::kEnd},
                                        std::pair{DivergencePolicy::kRollback, AfterSkip::kRollBack}}) {
    const Recipe recipe = with_policy(policy);
    for (const int64_t skips : {1, 2})
      EXPECT_EQ(after_skip(kBadLoss, skips, recipe, Precision::kFp32), AfterSkip::kGoOn);
    EXPECT_EQ(after_skip(kBadLoss, 3, recipe, Precision::kFp32), at_last);
  }
}

TEST(AfterSkip, StopsAtOnceWhereThePolicyIsToStop) {
  const Recipe recipe = with_policy(DivergencePolicy::kStop);
  EXPECT_EQ(after_skip(kBadLoss, 1, recipe, Precision::kFp32), AfterSkip::kEnd);
  EXPECT_EQ(after_skip(kOverflow, 1, recipe, Precision::kBf16), AfterSkip::kEnd);
}

TEST(AfterSkip, AnOverflowWithWhichTheScalerLooksForItsScaleIsNoDivergence) {
  const Recipe recipe = with_policy(DivergencePolicy::kStop);
  EXPECT_EQ(after_skip(kOverflow, 1, recipe, Precision::kFp16), AfterSkip::kGoOn);
  EXPECT_EQ(after_skip(kBadLoss, 1, recipe, Precision::kFp16), AfterSkip::kEnd) << "the loss itself";
  UpdateOutcome at_the_least_scale = kOverflow;
  at_the_least_scale.scale = recipe.execution.scaler.min_scale;
  EXPECT_EQ(after_skip(at_the_least_scale, 1, recipe, Precision::kFp16), AfterSkip::kEnd);
}

}  // namespace
}  // namespace autotrain
