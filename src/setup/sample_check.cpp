#include "setup/sample_check.h"

#include <optional>
#include <string>

#include "autotrain/error.h"
#include "base/text.h"
#include "data/loader.h"
#include "data/shape_text.h"
#include "device/failure.h"
#include "device/generators.h"
#include "plan/scopes.h"

namespace autotrain {
namespace {

Batch load_sample(Workbench& bench, const Dataset& data, int64_t index) {
  Loader loader(data, Stream(0, data.size(), /*shuffle=*/false), repeated({consecutive(index, 1)}),
                {.workers = 0, .prefetch = 0, .channels_last = bench.loader.channels_last});
  return bench.device->upload(*loader.next());
}

void evaluate(Workbench& bench, const Batch& batch) {
  const EvaluationMode mode(bench.task->module());
  const BufferScope buffers(*bench.task);
  evaluate_batch(*bench.task, batch, bench.precision);
}

void check_size(Workbench& bench, const Dataset& data, const char* key) {
  const std::vector<int64_t> own = data.info().input_shape, trained = bench.data.train->info().input_shape;
  if (own == trained) return;
  const Batch batch = load_sample(bench, data, 0);
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

// The samples that cost least and most.
struct Extremes {
  int64_t least = 0;
  int64_t most = 0;
};

// Nothing where samples do not differ in it.
std::optional<Extremes> extremes_of(const Dataset& data) {
  Extremes extremes;
  for (int64_t i = 0; i < data.size(); ++i) {
    const std::optional<int64_t> cost = data.cost(i);
    if (!cost) return std::nullopt;
    if (*cost < *data.cost(extremes.least)) extremes.least = i;
    if (*cost > *data.cost(extremes.most)) extremes.most = i;
  }
  return extremes;
}

// A model that takes one length would end a run at the first micro-batch of shorter samples.
void check_shortest(Workbench& bench, const Dataset& data, const std::string& key) {
  const std::optional<Extremes> extremes = extremes_of(data);
  if (!extremes) return;
  try {
    evaluate(bench, load_sample(bench, data, extremes->least));
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadRecipe) throw;
    const Batch longest = load_sample(bench, data, extremes->most);
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
