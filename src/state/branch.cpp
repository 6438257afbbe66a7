#include "state/branch.h"

#include "base/files.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"
#include "state/snapshot.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

CheckpointFolder checkpoints_of(const fs::path& run) {
  return CheckpointFolder(run / "checkpoints");
}

// The run's state in updates of another size, with nothing behind it.
RunState counted_in(const RunState& saved, int64_t effective) {
  RunState state;
  const Position& from = saved.position;
  Position& to = state.position;
  to.cursor = to.learned = from.cursor;
  to.updates = to.windows = from.cursor / effective;
  to.effective = effective;
  to.plateau = from.plateau;
  state.totals.lr_factor = saved.totals.lr_factor;
  return state;
}

// What an optimizer counts in updates, as if `ratio` times as many had been made: their number, and the
// product of the momenta that NAdamW has had in them.
void count_steps_in(std::vector<NamedTensor>& optimizer, double ratio) {
  for (NamedTensor& item : optimizer) {
    if (item.name == "step") item.tensor = item.tensor.mul(ratio).round();
    if (item.name == "mu_product") item.tensor = item.tensor.pow(ratio);
  }
}

}  // namespace

int64_t samples_at(const fs::path& run, int64_t update) {
  return saved_run(checkpoints_of(run).read_state(update)).state.position.cursor;
}

void begin_branch(const BranchPoint& point, int64_t effective, const fs::path& folder) {
  const CheckpointFolder from = checkpoints_of(point.run);
  SavedRun saved = saved_run(from.read_state(point.update));
  const int64_t updates = saved.state.position.updates;
  saved.state = counted_in(saved.state, effective);
  const fs::path files = from.path_of(point.update);
  TensorLists tensors{.model = read_safetensors(files / "model.safetensors"),
                      .optimizer = read_safetensors(files / "optimizer.safetensors")};
  if (from.holds_averages(point.update)) tensors.averaged = read_safetensors(files / "averaged.safetensors");
  if (updates > 0)
    count_steps_in(tensors.optimizer,
                   static_cast<double>(saved.state.position.updates) / static_cast<double>(updates));
  make_folders(folder / "checkpoints");
  checkpoints_of(folder).write(saved.state.position.updates, {std::move(tensors), state_to_json(saved)});
}

}  // namespace autotrain
