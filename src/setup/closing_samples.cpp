#include "setup/closing_samples.h"

#include <cmath>

#include "data/closing.h"
#include "recipe/reader.h"
#include "setup/batch_stages.h"
#include "setup/horizon.h"

namespace autotrain {
namespace {

constexpr const char* kCloseMosaic = "data.augment.close_mosaic";

// Nothing: only time stops it, or a number of updates whose samples are not known yet.
std::optional<int64_t> samples_of_run(const Recipe& recipe, int64_t dataset_size) {
  const std::optional<int64_t>& effective = recipe.batch.effective;
  if (!effective && recipe.stop.updates) return std::nullopt;
  const int64_t first = effective ? stages_of(recipe, dataset_size, *effective).first() : 1;
  return samples_to_stop(recipe, dataset_size, first);
}

}  // namespace

void close_samples(const Recipe& recipe, Dataset& train) {
  const AugmentRecipe& augment = recipe.data.augment;
  auto* const closing = dynamic_cast<Closing*>(&train);
  if (augment.close_mosaic == 0 || closing == nullptr) return;
  if (augment.mosaic == 0 && augment.mix_up == 0) {
    fail_recipe(recipe, kCloseMosaic, "has nothing to close: neither mosaic nor mix_up is on",
                "set data.augment.mosaic, or remove it");
  }
  const std::optional<int64_t> samples = samples_of_run(recipe, train.size());
  if (!samples) {
    fail_recipe(recipe, kCloseMosaic, "is a part of the run, and how many samples that has is not known",
                "set stop.epochs or stop.samples; with stop.updates, give batch.effective a number");
  }
  const double open = (1 - augment.close_mosaic) * static_cast<double>(*samples);
  int64_t position = std::llround(open);
  // Which samples are bad is known by epoch, so that in one they are all open or all closed.
  if (recipe.data.bad_samples == BadSamples::kSkip)
    position = (position + train.size() - 1) / train.size() * train.size();
  closing->close_from(position);
}

}  // namespace autotrain
