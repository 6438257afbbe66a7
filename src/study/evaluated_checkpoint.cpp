#include "study/evaluated_checkpoint.h"

#include "base/interrupt.h"
#include "checkpoint/checkpoint.h"
#include "loop/out_of_memory.h"
#include "setup/assembly.h"

namespace autotrain {
namespace fs = std::filesystem;

Evaluation evaluate_checkpoint(const TrainedRun& run, const std::function<void(int64_t samples)>& proceed) {
  const Recipe recipe = run.as_planned();
  const auto bench = assemble(recipe, load_materials(recipe));
  load_evaluated_weights(run, bench->task->module());
  const auto found = evaluate_in_attempts(*bench, run.plan, *bench->data.validation,
                                          run.plan.evaluation_micro_batch, [&](int64_t samples) {
                                            proceed(samples);
                                            return pending_interrupt() != Interrupt::kStop;
                                          });
  stop_if_interrupted("evaluation", "stopped by a signal");
  return *found;
}

TrainedRun on_training_set(const Recipe& recipe, const BatchPlan& plan, const fs::path& run, int64_t update) {
  TrainedRun other{.folder = run,
                   .recipe = recipe,
                   .plan = plan,
                   .update = update,
                   .checkpoint = CheckpointFolder(run / "checkpoints").path_of(update)};
  other.recipe.data.validation = recipe.data.train;
  other.recipe.data.augment = {};
  return other;
}

}  // namespace autotrain
