#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "autotrain/recipe.h"
#include "plan/workbench.h"

namespace autotrain {

/// The device that the recipe asks for, its budget in force from now on. @param settled the budget of a plan
/// that was made before.
/// @param place with several ranks on one machine each takes a GPU of its own, or its share of the cores; and
/// of memory, where that is one.
std::unique_ptr<Device> open_run_device(const Recipe& recipe, std::optional<ResolvedBudget> settled = {},
                                        const Place& place = {});

/// The recipe's loader on this device, `auto` resolved. @param ranks_here that share the machine's cores and
/// memory.
Loader::Options resolve_loader(const LoaderRecipe& asked, const Device& device, MemoryFormat format,
                               int64_t ranks_here = 1);

/// The data sets that the recipe names, held in memory as it asks.
RunData load_data(const Recipe& recipe, Device& device);

/// The model and loss that the recipe names, for samples like those of the training data, seeded weights.
std::unique_ptr<Task> build_task(const Recipe& recipe, const DatasetInfo& train);

/// What a workbench is made of.
struct Materials {
  std::unique_ptr<Device> device;
  RunData data = {};
  std::unique_ptr<Task> task = {};
  std::shared_ptr<Ranks> ranks = {};  ///< null: there is but one
  MakeOptimizer make_optimizer = {};  ///< empty: it is the recipe's
};

/// Device, data and task that the recipe names.
/// @param settled the budget of a plan that was made before.
/// @param ranks with whom the run is made; null: with nobody.
/// @throws Error as the data sets and the model find their bench; Error(kDoesNotFit) when the budget is too
/// small.
Materials load_materials(const Recipe& recipe, std::optional<ResolvedBudget> settled = {},
                         std::shared_ptr<Ranks> ranks = {});

/// Everything that computes updates, with what `auto` means for it resolved.
/// @throws Error(kBadRecipe) for int8, Error(kDoesNotFit) when the budget is too small.
std::unique_ptr<Workbench> assemble(const Recipe& recipe, Materials materials);

/// Has backward passes compute again from now on, or not. No bit depends on it.
/// @throws Error(kBadRecipe) where the model can not.
void set_recompute(const Recipe& recipe, Workbench& bench, bool on);

}  // namespace autotrain
