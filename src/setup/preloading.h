#pragma once

#include <string>

#include "autotrain/data.h"
#include "autotrain/recipe.h"
#include "data/preload.h"
#include "device/device.h"

namespace autotrain {

/// What there is to decide by.
struct PreloadCase {
  Preload asked = Preload::kAuto;
  bool on_gpu = false;
  bool read_again = true;    ///< whether samples are wanted more than once
  int64_t budget_bytes = 0;  ///< what is left of the device's
  int64_t free_bytes = 0;    ///< of main memory, a reserve left out
};

/// Whether a run takes samples of the training data, `size` of them, more than once, as far as the recipe
/// tells.
bool reads_again(const Recipe& recipe, int64_t size);

struct PreloadChoice {
  Preload where = Preload::kOff;
  int64_t bytes = 0;  ///< that it takes
};

/// kOff, kRam or kDevice for a data set that offers this; `auto` takes at most an eighth of what there is.
/// @throws Error(kBadRecipe, kDoesNotFit) without a place when what was asked for is not possible.
PreloadChoice choose_preload(const PreloadCase& c, const Preloadable& offer);

/// Holds the samples as the recipe asks and says so. @param key "data.train".
void preload(Dataset& dataset, const std::string& key, const Recipe& recipe, Device& device);

}  // namespace autotrain
