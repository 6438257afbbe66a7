#include "autotrain/error.h"
#include "base/text.h"
#include "data/detection_dataset.h"
#include "data/detection_look.h"

namespace autotrain {
namespace {

std::vector<KeySpec> detection_keys() {
  return {
      bool_key("upright",
               "Turn images as their metadata say (EXIF); boxes are taken to be of the upright image.", true),
      list_key(KeyKind::kIntegerList, "size",
               "[height, width] of a sample, in which images lie whole and in shape, on black.",
               std::vector<int64_t>{416, 416})
          .from(8, 16384)
          .of_length(2)
          .in("pixels"),
      integer_key("boxes",
                  "Rows of each sample's targets, of five columns in evaluations as well, as a model takes "
                  "them whose loss was exported with it; null: as many as the most crowded of a micro-batch "
                  "needs, and in evaluations the columns that COCO's figures take.")
          .from(1, 1 << 16),
      integer_key("limit", "Use only the first so many images; null: all.").from(1).in("samples")};
}

std::unique_ptr<Dataset> make_unlabelled_detection(const UnlabelledRequest& request) {
  const auto* const like = dynamic_cast<const DetectionDataset*>(&request.like);
  if (like != nullptr) return like->unlabelled(request.path);
  throw Error(ExitCode::kBadRecipe, request.path.string(), "the run's samples are no images with boxes",
              "name data of the run's own kind: --set data.validation.…");
}

}  // namespace

DatasetRow detection_row_of(DetectionFormat format) {
  std::vector<KeySpec> keys = std::move(format.keys);
  for (KeySpec& key : detection_keys()) keys.push_back(std::move(key));
  std::vector<std::string> as_training = {"size", "upright", "boxes"};
  as_training.insert(as_training.end(), format.as_training.begin(), format.as_training.end());
  const auto look = [name = format.name, from = std::move(format.from)](const LookRequest& request,
                                                                        DataLook& all) {
    look_at_boxes(request, cat(name, " ", from(request.made_from.parameters)), all);
  };
  return {{std::move(format.name), std::move(format.sentence), std::move(keys)},
          std::move(format.make),
          {"flip", "brightness", "contrast", "saturation", "hue", "scale", "translate", "shear", "mosaic",
           "mix_up", "close_mosaic", "multi_scale"},
          make_unlabelled_detection,
          "a folder of images, or one image",
          look,
          std::move(as_training)};
}

}  // namespace autotrain
