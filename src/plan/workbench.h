#pragma once

#include <functional>
#include <memory>

#include "autotrain/error.h"
#include "autotrain/recipe.h"
#include "autotrain/task.h"
#include "comm/ranks.h"
#include "data/loader.h"
#include "data/run_data.h"
#include "device/device.h"
#include "device/timeline.h"
#include "optim/optimizer.h"
#include "optim/scaler.h"
#include "optim/weight_average.h"
#include "step/update_step.h"

namespace autotrain {

/// Makes an optimizer in the place of the recipe's. @param trained in one group.
using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(Trained trained)>;

/// Everything that computes updates: what the planner tries, the loop trains with and studies measure are the
/// same objects. Members refer to each other: not movable.
class Workbench {
 public:
  /// Moves the task's module to the device and allocates the state of optimizer and scaler.
  /// @param precision resolved: never kAuto.
  /// @throws Error(kDoesNotFit) when they take more than the device's budget.
  /// @param ranks null: there is but one. @param make_own empty: the optimizer is the recipe's.
  Workbench(const Recipe& recipe, std::unique_ptr<Device> device, RunData data, std::unique_ptr<Task> task,
            Precision precision, std::shared_ptr<Ranks> ranks = nullptr, const MakeOptimizer& make_own = {});
  Workbench(Workbench&) = delete;
  Workbench& operator=(Workbench&) = delete;

  const std::unique_ptr<Device> device;
  const RunData data;
  const std::unique_ptr<Task> task;
  const Precision precision;
  const std::shared_ptr<Ranks> ranks;
  const Lanes lanes;  ///< of this rank
  Timeline timeline;
  const std::unique_ptr<Optimizer> optimizer;
  GradScaler scaler;
  WeightAverage average;
  UpdateStep step;
  const Stream stream;
  MemoryFormat memory_format = MemoryFormat::kContiguous;  ///< of images; never kAuto
  bool recomputes = false;                                 ///< with execution.recompute in force
  Loader::Options loader = {};
  int64_t most_workers = 1;  ///< threads that may come to load: a trial has them all at work
};

/// Whether updates tell how noisy their gradients are, as far as recipe and data go: where samples differ in
/// length, windows are sorted by it, and the first micro-batch is no sample of the window.
bool may_measure_noise(const Recipe& recipe, const Dataset& train);

/// Whether a window cut like this has parts to compare.
bool has_parts(const WindowCut& cut);

/// Rethrows the error under way; one about memory as Error(kDoesNotFit), since no micro-batch could help.
[[noreturn]] void fail_loading(const std::exception& error, Device& device);

/// What `load` returns. @throws Error(kDoesNotFit) when it runs out of the device's budget.
template <class Load>
auto within_budget(Device& device, Load load) {
  try {
    return load();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    fail_loading(error, device);
  }
}

}  // namespace autotrain
