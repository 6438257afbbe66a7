#include "setup/stored_plan.h"

#include <algorithm>

#include "base/text.h"
#include "base/units.h"
#include "plan/memory_statement.h"
#include "plan/plan_enums.h"
#include "setup/batch_stages.h"

namespace autotrain {
namespace {

// What the plan's largest update would take here, in bytes, as far as the number of ranks changes it.
int64_t peak_here(const Workbench& bench, const BatchPlan& stored) {
  // Another number of ranks may accumulate in more buffers.
  const int64_t more = gradient_buffers(bench.lanes.count, bench.ranks->several()) -
                       gradient_buffers(stored.lanes / stored.world_size, stored.world_size > 1);
  int64_t peak = stored.peak_bytes;
  for (const NamedTensor& parameter : bench.optimizer->parameters())
    peak += std::max<int64_t>(0, more) * static_cast<int64_t>(parameter.tensor.nbytes());
  if (bench.optimizer->sharded()) {  // of fewer ranks each has more of it
    const int64_t now = bench.optimizer->state_bytes() + bench.optimizer->scratch_bytes();
    peak += std::max<int64_t>(0, now - now * bench.ranks->place().world / stored.world_size);
  }
  return peak;
}

}  // namespace

std::string why_plan_anew(const Recipe& recipe, const Workbench& bench, const BatchPlan& stored) {
  const double fill =
      static_cast<double>(peak_here(bench, stored)) / static_cast<double>(bench.device->budget_bytes());
  if (fill > std::max(stored.fill, recipe.execution.memory.target_high))
    return "the budget is only " + format_bytes(bench.device->budget_bytes());
  if (recipe.batch.changes()) {
    const int64_t largest = stages_of(recipe, bench.data.train->size(), 0).largest();
    if (largest != stored.effective_batch) return cat("the largest update has ", largest, " samples");
  }
  if (stored.lanes != bench.lanes.of) return cat("an update has ", bench.lanes.of, " lanes");
  if (stored.memory_format != bench.memory_format)
    return "the memory format is " + to_string(bench.memory_format);
  if (stored.precision != bench.precision) return "the precision is " + to_string(bench.precision);
  if (stored.device_name != bench.device->name()) return "the device is " + bench.device->name();
  return "";
}

}  // namespace autotrain
