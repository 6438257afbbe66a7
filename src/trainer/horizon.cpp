#include "trainer/horizon.h"

#include <cmath>

#include "base/text.h"
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
  const auto bound = [&](double samples, StopReason key) {
    const auto whole = static_cast<int64_t>(std::min(std::floor(samples), 0x1p62));
    if (!least || whole < least->samples) least = {whole, key};
  };
  if (stop.epochs) bound(*stop.epochs * static_cast<double>(dataset_size), StopReason::kEpochs);
  if (stop.samples) bound(static_cast<double>(*stop.samples), StopReason::kSamples);
  if (stop.updates)
    bound(static_cast<double>(*stop.updates) * static_cast<double>(effective), StopReason::kUpdates);
  return least;
}

}  // namespace

int64_t last_window_samples(const Recipe& recipe, int64_t dataset_size, int64_t effective) {
  const auto limit = first_limit(recipe, dataset_size, effective);
  return limit && recipe.stop.keep_last ? limit->samples % effective : 0;
}

Horizon horizon_of(const Recipe& recipe, int64_t dataset_size, int64_t effective) {
  const auto least = first_limit(recipe, dataset_size, effective);
  if (!least) return {};

  Horizon horizon{.updates = least->samples / effective,
                  .last_window = last_window_samples(recipe, dataset_size, effective),
                  .stopped_by = least->key};
  if (horizon.last_window > 0) ++*horizon.updates;
  if (*horizon.updates == 0) {
    fail_recipe(recipe, "stop." + to_string(least->key),
                cat("allows ", least->samples, " samples, less than one update of ", effective),
                "raise it, lower batch.effective, or set stop.last: keep");
  }
  return horizon;
}

}  // namespace autotrain
