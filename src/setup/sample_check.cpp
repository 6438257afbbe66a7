#include "setup/sample_check.h"

#include <string>

#include "autotrain/error.h"
#include "base/text.h"
#include "data/cost_order.h"
#include "data/shape_text.h"
#include "device/failure.h"
#include "device/generators.h"
#include "plan/load_samples.h"
#include "plan/scopes.h"

namespace autotrain {
namespace {

void evaluate(Workbench& bench, const Batch& batch) {
  const EvaluationMode mode(bench.task->module());
  const BufferScope buffers(*bench.task);
  evaluate_batch(*bench.task, batch, bench.precision);
}

void check_size(Workbench& bench, const Dataset& data, const char* key) {
  const std::vector<int64_t> own = data.info().input_shape, trained = bench.data.train->info().input_shape;
  if (own == trained) return;
  const Batch batch = load_samples(bench, data, consecutive(0, 1));
  try {
    evaluate(bench, batch);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    if (classify_failure(error) != Failure::kOther) return;
    throw Error(ExitCode::kBadRecipe, key,
                cat("has samples of ", shape_text(own),
                    ", which the model does not take; it was built for samples of ", shape_text(trained),
                    ": ", first_line(error)),
                "give both data of one size, by the same keys where these say it");
  }
}

// A model that takes one length would end a run at the first micro-batch of shorter samples.
void check_shortest(Workbench& bench, const Dataset& data, const std::string& key) {
  if (!has_costs(data)) return;
  const CostExtremes extremes = cost_extremes(data);
  try {
    evaluate(bench, load_samples(bench, data, consecutive(extremes.cheapest, 1)));
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadRecipe) throw;
    const Batch longest = load_samples(bench, data, consecutive(extremes.dearest, 1));
    evaluate(bench, longest);  // where that fails, too, it is not about lengths
    const int64_t length = longest.inputs.size(1);
    throw Error(ExitCode::kBadRecipe, key,
                cat("has samples of different lengths, and the model does not take the shortest: ",
                    error.where(), " ", error.problem()),
                cat("set ", key, ".multiple_of: ", length, ", which fills all up to that length"));
  } catch (const std::exception& error) {
    if (classify_failure(error) == Failure::kOther) throw;
  }
}

}  // namespace

void check_other_samples(Workbench& bench) {
  if (!bench.data.from_recipe) return;
  const GeneratorScope generators(bench.device->torch_device());
  const auto check = [&](const Dataset* data, const char* key) {
    if (data == nullptr) return;
    check_size(bench, *data, key);
    check_shortest(bench, *data, key);
  };
  check(bench.data.train, "data.train");
  check(bench.data.validation, "data.validation");
  check(bench.data.test, "data.test");
}

}  // namespace autotrain
