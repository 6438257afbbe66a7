#include "setup/sample_check.h"

#include "autotrain/error.h"
#include "base/text.h"
#include "data/loader.h"
#include "data/shape_text.h"
#include "device/failure.h"
#include "device/generators.h"
#include "plan/scopes.h"

namespace autotrain {
namespace {

void check(Workbench& bench, const Dataset& data, const char* key) {
  const std::vector<int64_t> own = data.info().input_shape, trained = bench.data.train->info().input_shape;
  if (own == trained) return;
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
    throw Error(ExitCode::kBadRecipe, key,
                cat("has samples of ", shape_text(own),
                    ", which the model does not take; it was built for samples of ", shape_text(trained),
                    ": ", first_line(error)),
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
