#include "plan/plan_key.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <sstream>

#include "autotrain/error.h"
#include "base/text.h"
#include "data/cost_order.h"
#include "data/crowded.h"

namespace autotrain {
namespace {

// The shapes that trials run are those of the samples that cost most.
std::string describe_costs(const Dataset& data) {
  if (const Crowded* const crowd = crowded(data))
    return cat("alike, of at most ", crowd->most_objects(), " objects");
  if (!has_costs(data)) return "alike";
  int64_t most = 0, sum = 0;
  for (int64_t i = 0; i < data.size(); ++i) {
    const std::optional<int64_t> cost = data.cost(i);
    check_invariant(cost.has_value(), "every sample has a cost, since the first one has");
    most = std::max(most, *cost);
    sum += *cost;
  }
  return cat("at most ", most, " in all ", sum, " of ", data.size());
}

// Describes the module by its layers, with the options that they print (a dropout's probability, a
// convolution's stride), and by every tensor that it holds.
std::string describe_module(const torch::nn::Module& module) {
  WithoutLocale<std::ostringstream> text;
  text << module << '\n';
  const auto list = [&](const char* what, const auto& tensors) {
    for (const auto& item : tensors) {
      text << what << ' ' << item.key() << ' ' << item.value().dtype() << ' ' << item.value().sizes()
           << (item.value().requires_grad() ? " learns\n" : "\n");
    }
  };
  list("parameter", module.named_parameters());
  list("buffer", module.named_buffers());
  return text.str();
}

}  // namespace

std::string plan_key(const PlanRequest& request, Workbench& bench, const SearchLimits& limits) {
  std::string key = cat(
      "format 6\n", bench.device->name(), "\n", bench.device->software(), "\nprecision ",
      to_string(bench.precision), " lanes ", request.lanes, " ranks ", bench.ranks->place().world,
      " threads ", at::get_num_threads(), bench.loader.channels_last ? " channels last" : "", "\nbudget ",
      limits.budget_bytes, " floor ", limits.floor_bytes, " min ", limits.minimum, " cap ", limits.cap,
      " share ", request.share(), " prefetch ", bench.loader.prefetch, " of ", bench.loader.prefetch_bytes,
      " in ", bench.most_workers, "\n", request.memory_keys, "samples ", bench.data.train->size());
  const DatasetInfo info = bench.data.train->info();
  for (const int64_t size : info.input_shape) key += cat(" ", size);
  for (const InputInfo& input : info.inputs)
    key += cat(" ", input.name, " ", c10::IntArrayRef(input.shape), c10::toString(input.type));
  key += "\ncosts " + describe_costs(*bench.data.train);
  if (bench.data.validation)
    key += cat(", of ", bench.data.validation->size(), " ", describe_costs(*bench.data.validation));
  return key + "\n" + describe_module(bench.task->module());
}

}  // namespace autotrain
