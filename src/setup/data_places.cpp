#include "setup/data_places.h"

#include <algorithm>

#include "model/losses.h"
#include "model/models.h"
#include "recipe/reader.h"

namespace autotrain {
namespace {

// A program predicts what it likes.
bool predicts_once_a_sample(const std::string& model) {
  const auto& rows = model_table();
  const auto row = std::ranges::find_if(rows, [&](const ModelRow& r) { return r.spec.name == model; });
  return row != rows.end() && !row->is_program && row->predicts_once;
}

TargetUse target_use(const Recipe& recipe) {
  const std::optional<MetricOptions> options = targets_of_loss(recipe.loss);
  TargetUse use{.one_a_sample = predicts_once_a_sample(recipe.model.name)};
  if (!options) return use;
  switch (options->kind) {
    case TargetKind::kClasses:
      use.kind = TargetUse::Kind::kClasses;
      use.ignored = options->ignore_index;
      return use;
    case TargetKind::kLabels: use.kind = TargetUse::Kind::kLabels; return use;
    case TargetKind::kNumbers: use.kind = TargetUse::Kind::kNumbers; return use;
  }
  return use;
}

}  // namespace

DatasetPlace training_place(const Recipe& recipe) {
  return {.choice = recipe.data.train,
          .augment = recipe.data.augment,
          .targets = target_use(recipe),
          .skips_bad = recipe.data.bad_samples == BadSamples::kSkip};
}

namespace {

DatasetPlace measured_place(const Recipe& recipe, const Choice& choice, DataRole role) {
  return {.choice = choice,
          .targets = target_use(recipe),
          .training = &recipe.data.train,
          .skips_bad = recipe.data.bad_samples == BadSamples::kSkip,
          .role = role};
}

}  // namespace

DatasetPlace validation_place(const Recipe& recipe) {
  return measured_place(recipe, *recipe.data.validation, DataRole::kValidation);
}

void check_test_data(const Recipe& recipe) {
  if (!recipe.data.test || recipe.data.test != recipe.data.validation) return;
  fail_recipe(recipe, "data.test", "is what data.validation is, and these choose",
              "name samples that had no part in any choice, or leave it out");
}

DatasetPlace test_place(const Recipe& recipe) {
  return measured_place(recipe, *recipe.data.test, DataRole::kTest);
}

}  // namespace autotrain
