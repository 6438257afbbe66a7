#include "setup/data_places.h"

#include "model/losses.h"

namespace autotrain {
namespace {

TargetUse target_use(const Recipe& recipe) {
  const std::optional<MetricOptions> options = targets_of_loss(recipe.loss);
  if (!options) return {};
  switch (options->kind) {
    case TargetKind::kClasses: return {TargetUse::Kind::kClasses, options->ignore_index};
    case TargetKind::kLabels: return {TargetUse::Kind::kLabels};
    case TargetKind::kNumbers: return {TargetUse::Kind::kNumbers};
  }
  return {};
}

}  // namespace

DatasetPlace training_place(const Recipe& recipe) {
  return {.choice = recipe.data.train,
          .augment = recipe.data.augment,
          .targets = target_use(recipe),
          .skips_bad = recipe.data.bad_samples == BadSamples::kSkip};
}

DatasetPlace validation_place(const Recipe& recipe) {
  return {.choice = *recipe.data.validation,
          .targets = target_use(recipe),
          .training = &recipe.data.train,
          .skips_bad = recipe.data.bad_samples == BadSamples::kSkip};
}

}  // namespace autotrain
