// The augmentations that data sets can do. They stand apart from the table of data sets so that a program
// that links one data set does not link all.
#include <algorithm>

#include "autotrain/error.h"
#include "base/text.h"
#include "data/datasets.h"

namespace autotrain {
namespace {

std::vector<std::string> asked_keys(const AugmentRecipe& a) {
  std::vector<std::string> keys;
  if (a.flip) keys.emplace_back("flip");
  if (a.crop_padding > 0) keys.emplace_back("crop_padding");
  if (a.random_resized_crop) keys.emplace_back("random_resized_crop");
  if (a.brightness > 0) keys.emplace_back("brightness");
  if (a.contrast > 0) keys.emplace_back("contrast");
  if (a.saturation > 0) keys.emplace_back("saturation");
  if (a.hue > 0) keys.emplace_back("hue");
  if (a.scale > 0) keys.emplace_back("scale");
  if (a.translate > 0) keys.emplace_back("translate");
  if (a.shear > 0) keys.emplace_back("shear");
  if (a.mosaic > 0) keys.emplace_back("mosaic");
  if (a.mix_up > 0) keys.emplace_back("mix_up");
  if (a.close_mosaic > 0) keys.emplace_back("close_mosaic");
  if (a.multi_scale > 0) keys.emplace_back("multi_scale");
  return keys;
}

}  // namespace

void check_augmentations(const std::string& dataset, const std::vector<std::string>& known,
                         const AugmentRecipe& augment) {
  for (const std::string& key : asked_keys(augment)) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    throw Error(ExitCode::kBadRecipe, "data.augment." + key, dataset + " samples cannot be changed so",
                known.empty() ? "remove data.augment" : "remove it; known here: " + join(known, ", "));
  }
}

}  // namespace autotrain
