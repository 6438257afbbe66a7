#include "study/training_set.h"

#include "base/interrupt.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"
#include "trainer/assembly.h"
#include "trainer/evaluator.h"
#include "trainer/snapshot.h"

namespace autotrain {
namespace fs = std::filesystem;

fs::path evaluated_weights(const fs::path& checkpoint) {
  const fs::path averaged = checkpoint / "averaged.safetensors";
  return fs::exists(averaged) ? averaged : checkpoint / "model.safetensors";
}

std::map<std::string, double> evaluate_on_training_set(const Recipe& recipe, const BatchPlan& plan,
                                                       const fs::path& run, int64_t update) {
  Recipe other = recipe;
  other.data.validation = recipe.data.train;
  other.data.augment = {};
  other.execution.loader.preload = Preload::kOff;  // it is read once
  const auto bench = assemble(other, load_materials(other));
  const fs::path checkpoint = CheckpointFolder(run / "checkpoints").path_of(update);
  read_safetensors_into(evaluated_weights(checkpoint), model_tensors(bench->task->module()),
                        "remove the run's folder to train it again");
  const auto found = evaluate(*bench, plan.evaluation_micro_batch,
                              [](int64_t) { return pending_interrupt() != Interrupt::kStop; });
  stop_if_interrupted("study", "stopped by a signal");
  return found->figures;
}

}  // namespace autotrain
