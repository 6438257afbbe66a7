#include "setup/horizon.h"

#include "base/text.h"
#include "base/units.h"
#include "recipe/reader.h"

namespace autotrain {
namespace {

struct Limit {
  int64_t samples;
  StopReason key;
};

// The stop that is reached first, of those that count samples; nothing when only time stops the run.
std::optional<Limit> first_limit(const Recipe& recipe, int64_t dataset_size, int64_t effective) {
  const StopRecipe& stop = recipe.stop;
  std::optional<Limit> least;
  const auto bound = [&](int64_t samples, StopReason key) {
    if (!least || samples < least->samples) least = {samples, key};
  };
  if (stop.epochs) bound(samples_of_epochs(*stop.epochs, dataset_size), StopReason::kEpochs);
  if (stop.samples) bound(*stop.samples, StopReason::kSamples);
  if (stop.updates) bound(counted_product(*stop.updates, effective), StopReason::kUpdates);
  return least;
}

}  // namespace

std::optional<int64_t> samples_to_stop(const Recipe& recipe, int64_t dataset_size, int64_t effective) {
  const auto limit = first_limit(recipe, dataset_size, effective);
  return limit ? std::optional(limit->samples) : std::nullopt;
}

int64_t last_window_samples(const Recipe& recipe, int64_t dataset_size, const BatchStages& stages) {
  const auto limit = first_limit(recipe, dataset_size, stages.first());
  if (!limit || !recipe.stop.keep_last || recipe.batch.adapts()) return 0;
  return limit->samples - stages.between(0, limit->samples).samples;
}

Horizon horizon_of(const Recipe& recipe, int64_t dataset_size, const BatchStages& stages) {
  const int64_t effective = stages.first();
  const auto least = first_limit(recipe, dataset_size, effective);
  if (!least) return {};

  const bool keep = recipe.stop.keep_last;
  Horizon horizon{.samples = least->samples,
                  .updates = least->samples / effective,
                  .last_window = last_window_samples(recipe, dataset_size, stages),
                  .stopped_by = least->key,
                  .keep_last = keep};
  if (keep && least->samples % effective > 0) ++*horizon.updates;
  if (*horizon.updates == 0) {
    fail_recipe(recipe, "stop." + to_string(least->key),
                cat("allows ", least->samples, " samples, less than one update of ", effective),
                "raise it, lower batch.effective, or set stop.last: keep");
  }
  return horizon;
}

int64_t Horizon::next_window(int64_t learned, int64_t effective) const {
  if (!samples) return effective;
  const int64_t left = *samples - learned;
  if (left >= effective) return effective;
  return keep_last ? std::max<int64_t>(0, left) : 0;
}

int64_t Horizon::total_updates(int64_t done, int64_t learned, const BatchStages& stages) const {
  if (!samples) return 0;
  const BatchStages::Updates left = stages.between(learned, *samples);
  return done + left.count + (keep_last && left.samples < *samples ? 1 : 0);
}

}  // namespace autotrain
