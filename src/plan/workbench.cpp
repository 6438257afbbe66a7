#include "plan/workbench.h"

#include "base/text.h"
#include "base/units.h"
#include "device/failure.h"
#include "device/memory_phase.h"
#include "plan/memory_statement.h"
#include "step/precision.h"

namespace autotrain {
namespace {

std::unique_ptr<Optimizer> make_run_optimizer(const Recipe& recipe, Task& task, Device& device) {
  return within_budget(device, [&] {
    {
      const PhaseScope phase(MemoryPhase::kModel);
      task.module().to(device.torch_device());
    }
    const PhaseScope phase(MemoryPhase::kOptimizer);
    return make_optimizer(recipe.optimizer, trainable_parameters(task.module()));
  });
}

WeightAverage make_average(const Recipe& recipe, Task& task, Device& device) {
  if (!recipe.average.half_life) return {};
  return within_budget(device, [&] {
    const PhaseScope phase(MemoryPhase::kOptimizer);
    return WeightAverage(trainable_parameters(task.module()), static_cast<double>(*recipe.average.half_life));
  });
}

}  // namespace

Workbench::Workbench(const Recipe& recipe, std::unique_ptr<Device> run_device, RunData run_data,
                     std::unique_ptr<Task> run_task, Precision run_precision)
    : device(std::move(run_device)),
      data(std::move(run_data)),
      task(std::move(run_task)),
      precision(run_precision),
      timeline(device->torch_device()),
      optimizer(make_run_optimizer(recipe, *task, *device)),
      scaler(recipe.execution.scaler, scales_loss(precision), device->torch_device()),
      average(make_average(recipe, *task, *device)),
      step(*task, *optimizer, scaler,
           {.device = device->torch_device(),
            .precision = precision,
            .clip_norm = recipe.optimizer.clip_norm,
            .seed = static_cast<uint64_t>(recipe.seed),
            .timeline = &timeline},
           &average),
      stream(static_cast<uint64_t>(recipe.seed), data.train->size(), recipe.data.shuffle) {}

void fail_loading(const std::exception& error, Device& device) {
  if (classify_failure(error) == Failure::kOther) throw;
  const std::optional<Refusal> refusal = device.memory().last_refusal();
  throw Error(ExitCode::kDoesNotFit, "execution.memory.budget",
              cat("the data set and the model with its optimizer need more than the ",
                  format_bytes(device.budget_bytes()), " of the budget",
                  refusal ? describe(*refusal) : ": " + first_line(error)),
              "raise execution.memory.budget, use less data, or a smaller model");
}

}  // namespace autotrain
