#pragma once

#include <filesystem>

#include "autotrain/plan.h"
#include "checkpoint/checkpoint.h"
#include "plan/workbench.h"
#include "state/identity.h"
#include "state/run_state.h"

namespace autotrain {

/// What a checkpoint says beside its tensors.
struct SavedRun {
  RunState state;
  BatchPlan plan;
  std::string recipe = {};  ///< resolved, as YAML
  Identity identity = {};
};

/// The parameters and buffers of a module, under their names; tied ones several times.
std::vector<NamedTensor> model_tensors(const torch::nn::Module& module);

/// What a task keeps beside its module (Task::state), named as in checkpoints: "task.queue".
std::vector<NamedTensor> task_tensors(Task& task);

/// The weights of a checkpoint that are evaluated: averages where there are some.
std::filesystem::path evaluated_weights(const std::filesystem::path& checkpoint);

/// The live tensors of a run with its state, ready to be written. Tensors are not copied.
/// Those of a sharded optimizer are where Shard::gather_state has put them.
CheckpointContent checkpoint_content(Workbench& bench, const SavedRun& run);

/// The live tensors alone, to be filled from a checkpoint.
TensorLists live_tensors(Workbench& bench);

/// Fills the run's tensors from a checkpoint. Averages that it does not have begin as the weights are.
/// @throws Error(kBadData) naming what does not match.
void load_tensors(const CheckpointFolder& checkpoints, int64_t update, Workbench& bench);

/// Gives every rank the first one's parameters, buffers, averages and state of optimizer and scaler.
/// @param loaded the first rank has them from a checkpoint: else a sharded optimizer has no state to share.
void share_tensors(Workbench& bench, bool loaded);

/// Brings a sharded optimizer's state together for a checkpoint. Every rank calls it.
void gather_state(Workbench& bench);

/// The same for the buffers alone: each rank's forward passes change its own.
void share_buffers(Workbench& bench);

/// Which of the run's checkpoints stay when another one was written.
Retention retention_of(const Recipe& recipe);

/// What a checkpoint says of the run, and back. @param where the file that holds it, for errors.
/// @throws Error(kBadData) naming what is missing, of the wrong type, or a number that no run can have.
nlohmann::ordered_json state_to_json(const SavedRun& run);
SavedRun saved_run(const nlohmann::ordered_json& state, const std::string& where = "state.json");

}  // namespace autotrain
