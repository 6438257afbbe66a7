#include "plan/smallest_inputs.h"

#include <algorithm>

#include "autotrain/error.h"
#include "base/text.h"
#include "device/failure.h"
#include "device/generators.h"
#include "plan/planner.h"
#include "plan/scopes.h"

namespace autotrain {
namespace {

constexpr const char* kMultiScale = "data.augment.multi_scale";

int64_t shorter_side(const Dataset& data) {
  const std::vector<int64_t> shape = data.info().input_shape;
  return std::min(shape.at(1), shape.at(2));
}

}  // namespace

void try_smallest_inputs(Workbench& bench) {
  const InputScale& scale = bench.step.options().input_scale;
  if (!scale.active()) return;
  const int64_t side = shorter_side(*bench.data.train), steps = scale.most_steps(side);
  if (steps == 0) {
    throw Error(ExitCode::kBadRecipe, kMultiScale,
                cat(brief(scale.share), " of ", side, " pixels are less than a step of ", InputScale::kStep),
                "raise it, set it to 0, or take larger samples");
  }
  const GeneratorScope generators(bench.device->torch_device());
  const BufferScope buffers(*bench.task);
  const LargestInputsScope as_they_are(bench.step);
  const WindowScope window(bench.step);
  const int64_t samples = std::min(smallest_batch(bench.task->module()), bench.data.train->size());
  Loader loader(*bench.data.train, bench.stream, repeated({consecutive(0, samples)}),
                {.prefetch = 0, .channels_last = bench.loader.channels_last});
  try {
    const Batch batch = shrunk(bench.device->upload(*loader.next()), steps);
    bench.step.accumulate(batch, 0, 0);
    if (bench.task->makes_passes()) bench.step.end_lanes();
  } catch (const std::exception& error) {
    if (is_of_device(error)) throw;
    if (classify_failure(error) != Failure::kOther) return;  // the search says what fits
    throw Error(ExitCode::kBadRecipe, kMultiScale,
                cat("the model does not take inputs that are ", steps * InputScale::kStep,
                    " pixels smaller: ", first_line(error)),
                "lower it, set it to 0, or take a model that takes images of any size");
  }
}

}  // namespace autotrain
