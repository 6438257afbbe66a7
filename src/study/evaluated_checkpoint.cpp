#include "study/evaluated_checkpoint.h"

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "device/failure.h"
#include "loop/out_of_memory.h"
#include "setup/assembly.h"

namespace autotrain {
namespace fs = std::filesystem;

Evaluation evaluate_checkpoint(const TrainedRun& run, const std::function<void(int64_t samples)>& proceed) {
  const Recipe recipe = run.as_planned();
  const auto bench = assemble(recipe, load_materials(recipe));
  load_evaluated_weights(run, bench->task->module());
  int64_t micro_batch = run.plan.evaluation_micro_batch;
  for (Attempts attempts;;) {
    try {
      const auto found = evaluate(*bench, *bench->data.validation, micro_batch, [&](int64_t samples) {
        proceed(samples);
        return pending_interrupt() != Interrupt::kStop;
      });
      stop_if_interrupted("evaluation", "stopped by a signal");
      return *found;
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      if (!lacks_memory(error)) throw;
      const auto refusal = bench->device->memory().last_refusal();
      const int64_t next = attempts.after_failure(micro_batch);
      if (next == 0) throw out_of_memory(*bench, run.plan, error, refusal, "evaluation", micro_batch, "");
      log::warn("evaluate", cat("memory ran out in micro-batches of ", micro_batch, " (", first_line(error),
                                "): it starts again in micro-batches of ", next));
      micro_batch = next;
    }
    bench->device->memory().empty_cache();
  }
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
