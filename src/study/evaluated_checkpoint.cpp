#include "study/evaluated_checkpoint.h"

#include "base/interrupt.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"
#include "trainer/assembly.h"
#include "trainer/snapshot.h"

namespace autotrain {
namespace fs = std::filesystem;

fs::path evaluated_weights(const fs::path& checkpoint) {
  const fs::path averaged = checkpoint / "averaged.safetensors";
  return fs::exists(averaged) ? averaged : checkpoint / "model.safetensors";
}

Evaluation evaluate_checkpoint(const Recipe& recipe, const BatchPlan& plan, const fs::path& checkpoint,
                               const std::function<void(int64_t samples)>& proceed) {
  Recipe as_planned = recipe;
  as_planned.execution.precision = plan.precision;
  as_planned.execution.memory_format = plan.memory_format;
  as_planned.execution.loader.preload = Preload::kOff;  // every sample is read once
  const auto bench = assemble(as_planned, load_materials(as_planned));
  read_safetensors_into(evaluated_weights(checkpoint), model_tensors(bench->task->module()),
                        "these weights are of another model than the recipe's");
  const auto found = evaluate(*bench, plan.evaluation_micro_batch, [&](int64_t samples) {
    proceed(samples);
    return pending_interrupt() != Interrupt::kStop;
  });
  stop_if_interrupted("evaluation", "stopped by a signal");
  return *found;
}

std::map<std::string, double> evaluate_on_training_set(const Recipe& recipe, const BatchPlan& plan,
                                                       const fs::path& run, int64_t update) {
  Recipe other = recipe;
  other.data.validation = recipe.data.train;
  other.data.augment = {};
  return evaluate_checkpoint(other, plan, CheckpointFolder(run / "checkpoints").path_of(update)).figures;
}

}  // namespace autotrain
