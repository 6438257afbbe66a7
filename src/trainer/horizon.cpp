#include "trainer/horizon.h"

#include <cmath>

#include "base/text.h"
#include "recipe/reader.h"

namespace autotrain {
namespace {

struct Limit {
  int64_t samples;
  const char* key;
};

}  // namespace

Horizon horizon_of(const Recipe& recipe, int64_t dataset_size, int64_t effective) {
  const StopRecipe& stop = recipe.stop;
  std::optional<Limit> least;
  const auto bound = [&](double samples, const char* key) {
    const auto whole = static_cast<int64_t>(std::min(std::floor(samples), 0x1p62));
    if (!least || whole < least->samples) least = {whole, key};
  };
  if (stop.epochs) bound(*stop.epochs * static_cast<double>(dataset_size), "epochs");
  if (stop.samples) bound(static_cast<double>(*stop.samples), "samples");
  if (stop.updates) bound(static_cast<double>(*stop.updates) * static_cast<double>(effective), "updates");
  if (!least) return {.stopped_by = "minutes"};

  Horizon horizon{.updates = least->samples / effective, .stopped_by = least->key};
  if (stop.keep_last && least->samples % effective != 0) {
    horizon.last_window = least->samples % effective;
    ++*horizon.updates;
  }
  if (*horizon.updates == 0) {
    fail_recipe(recipe, cat("stop.", least->key),
                cat("allows ", least->samples, " samples, less than one update of ", effective),
                "raise it, lower batch.effective, or set stop.last: keep");
  }
  return horizon;
}

}  // namespace autotrain
