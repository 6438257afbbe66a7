#include "plan/plan_key.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "autotrain/error.h"
#include "base/text.h"
#include "data/cost_order.h"
#include "recipe/words.h"

namespace autotrain {
namespace {

// The shapes that trials run are those of the samples that cost most.
std::string describe_costs(const Dataset& data) {
  if (!has_costs(data)) return "alike";
  int64_t most = 0, sum = 0;
  for (int64_t i = 0; i < data.size(); ++i) {
    const std::optional<int64_t> cost = data.cost(i);
    if (!cost) {
      throw Error(ExitCode::kInternal, cat("Dataset::cost of sample ", i), "is missing; sample 0 has one",
                  "give every sample a cost, or none");
    }
    most = std::max(most, *cost);
    sum += *cost;
  }
  return cat("at most ", most, " in all ", sum, " of ", data.size());
}

}  // namespace

std::string plan_key(const PlanRequest& request, const Workbench& bench, const SearchLimits& limits) {
  const Recipe& r = request.recipe;
  std::string key = cat(
      "format 3\n", bench.device.name(), "\n", bench.device.software(), "\nprecision ",
      to_string(request.precision), " world ", request.world_size, " threads ", at::get_num_threads(),
      bench.loader.channels_last ? " channels last" : "", "\nbudget ", limits.budget_bytes, " floor ",
      limits.floor_bytes, " band ", limits.target_low, " ", limits.target_high, " min ", limits.minimum,
      " cap ", limits.cap, " multiple ", limits.multiple_of, " share ", request.share(), " cut ",
      to_string(r.execution.cut), "\nstrategy ", r.execution.search.strategy, " optimizer ",
      r.optimizer.algorithm.name, " loss ", r.loss.name, " model ", r.model.name, " prefetch ",
      bench.loader.prefetch, " of ", r.execution.loader.prefetch_memory.text(), " in ", bench.most_workers,
      " preload ", name_of(r.execution.loader.preload), " evaluation ", r.evaluation.micro_batch.value_or(0),
      " of ", bench.validation ? bench.validation->size() : 0, "\nsample");
  for (const int64_t size : bench.train.info().input_shape) key += cat(" ", size);
  key += "\ncosts " + describe_costs(bench.train);
  if (bench.validation) key += ", " + describe_costs(*bench.validation);
  for (const NamedTensor& parameter : bench.optimizer.parameters()) {
    key += cat("\n", parameter.name, " ", parameter.tensor.sizes());
  }
  return key;
}

}  // namespace autotrain
