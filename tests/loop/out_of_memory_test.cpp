#include "loop/out_of_memory.h"

#include <new>

#include "base/text.h"
#include "base/units.h"
#include "support/run_workbench.h"
#include "support/support.h"

namespace autotrain {
namespace {

// What the cure says after 2000 samples of a plan ran out of memory, when `came_to` was wanted of 100 MiB.
std::string cure_of(const BatchPlan& plan, int64_t came_to, int64_t micro_batch = 2000) {
  const TensorDataset data = test::small_data(100);
  const auto bench = test::make_workbench(test::small_recipe(), test::small_task(), data);
  Refusal refusal;
  refusal.reserved_bytes = came_to;
  return out_of_memory(*bench, plan, std::bad_alloc(), refusal, "training", micro_batch, "").hint();
}

TEST(OutOfMemory, TheCureNamesASizeThatIsClearlySmallerThanTheOneThatFailed) {
  BatchPlan plan;
  plan.micro_batch = 2000;
  plan.budget_bytes = 100 * kMiB;
  plan.peak_bytes = 80 * kMiB;
  for (const int64_t size : {500, 1000, 1500, 1920, 2000}) {
    const int64_t peak = size * plan.peak_bytes / 2000;
    plan.search.probes.push_back(
        {.micro_batch = size,
         .peak_bytes = peak,
         .fill = static_cast<double>(peak) / static_cast<double>(plan.budget_bytes)});
  }
  EXPECT_TRUE(test::holds(cure_of(plan, 100 * kMiB), "set execution.micro_batch: 1500, which took 60.0 %"))
      << "that of 1920 would come to 96 MiB as that of 2000 came to 100";
  EXPECT_TRUE(test::holds(cure_of(plan, 81 * kMiB), "set execution.micro_batch: 1920"));
  EXPECT_TRUE(test::holds(cure_of(plan, 400 * kMiB), "set execution.micro_batch: 1000 or less"));
  EXPECT_TRUE(test::holds(cure_of(plan, 100 * kMiB, /*micro_batch=*/1999), "set execution.micro_batch: 500,"))
      << "at most half of a size that was not tried";
}

}  // namespace
}  // namespace autotrain
