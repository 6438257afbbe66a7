#include "setup/sample_check.h"

#include "autotrain/error.h"
#include "base/text.h"
#include "data/loader.h"
#include "device/failure.h"
#include "device/generators.h"
#include "plan/scopes.h"

namespace autotrain {
namespace {

std::string in_words(const DatasetInfo& info) {
  std::vector<std::string> sizes;
  for (const int64_t size : info.input_shape) sizes.push_back(std::to_string(size));
  return join(sizes, " × ");
}

void check(Workbench& bench, const Dataset& data, const char* key) {
  const DatasetInfo own = data.info(), trained = bench.data.train->info();
  if (own.input_shape == trained.input_shape) return;
  const EvaluationMode mode(bench.task->module());
  const BufferScope buffers(*bench.task);
  Loader loader(data, Stream(0, data.size(), /*shuffle=*/false), repeated({consecutive(0, 1)}),
                {.workers = 0, .prefetch = 0, .channels_last = bench.loader.channels_last});
  const Batch batch = bench.device->upload(*loader.next());
  try {
    evaluate_batch(*bench.task, batch, bench.precision);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    if (classify_failure(error) != Failure::kOther) return;
    throw Error(
        ExitCode::kBadRecipe, key,
        cat("has samples of ", in_words(own), ", which the model does not take; it was built for samples of ",
            in_words(trained), ": ", first_line(error)),
        "give both data of one size, by the same keys where these say it");
  }
}

}  // namespace

void check_other_samples(Workbench& bench) {
  if (!bench.data.from_recipe) return;
  const GeneratorScope generators(bench.device->torch_device());
  if (bench.data.validation != nullptr) check(bench, *bench.data.validation, "data.validation");
  if (bench.data.test != nullptr) check(bench, *bench.data.test, "data.test");
}

}  // namespace autotrain
