#pragma once

#include <memory>
#include <vector>

#include "autotrain/data.h"
#include "autotrain/error.h"
#include "autotrain/recipe.h"
#include "autotrain/task.h"
#include "data/bad_samples.h"
#include "device/device.h"
#include "device/timeline.h"
#include "optim/optimizer.h"
#include "optim/scaler.h"
#include "optim/weight_average.h"
#include "plan/workbench.h"
#include "step/update_step.h"

namespace autotrain {

/// The data of a run.
struct RunData {
  bool from_recipe = false;  ///< false: they are the caller's own
  std::vector<std::unique_ptr<const Dataset>> owned = {};
  const Dataset* train = nullptr;
  const Dataset* validation = nullptr;                ///< null: the run is not evaluated
  std::vector<const SkippingDataset*> skipping = {};  ///< those that go on after bad samples
};

/// The device that the recipe asks for, its budget in force from now on. @param settled the budget of a plan
/// that was made before.
std::unique_ptr<Device> open_run_device(const Recipe& recipe, std::optional<ResolvedBudget> settled = {});

/// @throws Error(kBadRecipe) for int8, which is for inference only.
void check_trains(Precision precision);

/// `precision: auto` resolved for a device; an explicit one is kept.
Precision resolve_precision(const Recipe& recipe, const Device& device);

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

/// The recipe's loader on this device, `auto` resolved.
Loader::Options resolve_loader(const LoaderRecipe& asked, const Device& device, MemoryFormat format);

/// The data sets that the recipe names, held in memory as it asks.
RunData load_data(const Recipe& recipe, Device& device);

/// The model and loss that the recipe names, for samples like those of `train`, seeded weights.
std::unique_ptr<Task> build_task(const Recipe& recipe, const Dataset& train);

/// Everything that computes updates. Members refer to each other: not movable.
class Parts {
 public:
  /// Moves the task's module to the device and allocates optimizer and scaler state.
  Parts(const Recipe& recipe, std::unique_ptr<Device> device, RunData data, std::unique_ptr<Task> task);
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  Workbench workbench();

  const std::unique_ptr<Device> device;
  const RunData data;
  const std::unique_ptr<Task> task;
  const Precision precision;
  Timeline timeline;
  const std::unique_ptr<Optimizer> optimizer;
  GradScaler scaler;
  WeightAverage average;
  UpdateStep step;
  const MemoryFormat memory_format;  ///< resolved: never kAuto
  const Stream stream;
  Loader::Options loader;
  const int64_t most_workers;  ///< as many as loader.workers when the recipe names a number
};

}  // namespace autotrain
