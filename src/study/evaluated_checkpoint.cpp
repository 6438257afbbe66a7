#include "study/evaluated_checkpoint.h"

#include <algorithm>

#include "base/interrupt.h"
#include "checkpoint/checkpoint.h"
#include "data/names.h"
#include "loop/out_of_memory.h"
#include "setup/assembly.h"
#include "study/training_data.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

// The first samples of a data set.
class FirstSamples final : public Dataset {
 public:
  FirstSamples(const Dataset& all, int64_t samples) : all_(all), size_(std::min(all.size(), samples)) {}

  int64_t size() const override { return size_; }
  Batch get(c10::ArrayRef<int64_t> indices, const SampleRandom& random) const override {
    return all_.get(indices, random);
  }
  std::optional<int64_t> cost(int64_t index) const override { return all_.cost(index); }
  DatasetInfo info() const override { return all_.info(); }
  bool on_device() const override { return all_.on_device(); }
  bool changes() const override { return all_.changes(); }

 private:
  const Dataset& all_;
  int64_t size_;
};

}  // namespace

Evaluation evaluate_checkpoint(const TrainedRun& run, const std::function<void(int64_t samples)>& proceed,
                               const EvaluationChange& change) {
  const Recipe recipe = run.as_planned();
  check_training_file(run);
  const auto bench = assemble(recipe, load_materials(recipe));
  check_classes(run, class_names_in(*bench->data.train));
  load_evaluated_weights(run, bench->task->module());
  change.prepare(bench->task->module());
  const Dataset& all = *bench->data.validation;
  const FirstSamples data(all, change.samples.value_or(all.size()));
  const auto found =
      evaluate_in_attempts(*bench, run.plan, data, run.plan.evaluation_micro_batch, [&](int64_t samples) {
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
  // An evaluation sees each sample once. A column of weights stays named, or it would be taken for a feature.
  for (const char* const key : {"balance", "weights"}) other.recipe.data.validation->parameters.erase(key);
  other.recipe.data.augment = {};
  return other;
}

}  // namespace autotrain
