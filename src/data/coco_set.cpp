#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/text.h"
#include "base/units.h"
#include "data/coco_file.h"
#include "data/detection_dataset.h"
#include "data/detection_look.h"

namespace autotrain {
namespace {

void announce_coco(const CocoAnnotations& all, const std::string& file, bool keeps_crowds) {
  const int64_t images = all.images.size();
  log::info(
      "data",
      cat(file, ": ", format_count(images), " images · ", format_count(all.boxes.summary.boxes()),
          " boxes of ", all.classes.size(), " classes",
          all.unlabelled > 0 ? cat(" · ", format_count(all.unlabelled), " images without a box") : "",
          all.crowds > 0 ? cat(" · ", format_count(all.crowds),
                               keeps_crowds ? " crowds, in which nothing found is wrong" : " crowds left out")
                         : ""));
  if (2 * all.unlabelled <= images) return;
  log::warn(
      "data",
      cat(file, ": most images have no box, ", format_count(all.unlabelled), " of ", format_count(images),
          ", and are learned as images of nothing · try: leave out images that nobody labelled"));
}

std::unique_ptr<Dataset> make_coco_set(const DatasetRequest& request) {
  const Parameters& p = request.parameters;
  const std::string file = p.text("annotations");
  for (const char* const key : {"images", "annotations"}) {
    if (p.text(key).empty())
      throw Error(ExitCode::kBadRecipe, cat("coco: ", key), "is not set",
                  "name the folder of the images, and the file of their annotations");
  }
  DetectionDataset::Options options = detection_options(request, 0);
  const std::string training = request.training != nullptr ? request.training->text("annotations") : "";
  CocoAnnotations all = read_coco(
      file, {.images = p.text("images"),
             .size = options.size,
             .upright = options.reading.upright,
             .keeps_crowds = options.long_targets,
             .classes = training.empty() || training == file ? CocoClasses{} : read_coco_classes(training),
             .limit = p.optional_integer("limit")});
  options.classes = std::ssize(all.classes);
  all.boxes.summary.empty_words = " of those that annotations name";
  announce_coco(all, file, options.long_targets);
  auto data = std::make_unique<DetectionDataset>(LabelledImages{.folder = p.text("images"),
                                                                .names = std::move(all.images),
                                                                .boxes = std::move(all.boxes.boxes),
                                                                .stated = std::move(all.sizes),
                                                                .faulty = std::move(all.boxes.faulty),
                                                                .classes = std::move(all.classes),
                                                                .image_ids = std::move(all.image_ids),
                                                                .category_ids = std::move(all.category_ids),
                                                                .summary = std::move(all.boxes.summary)},
                                                 options);
  tell_boxes_at_start(*data, file, request.skips_bad);
  return data;
}

}  // namespace

DatasetRow coco_row() {
  return detection_row_of(
      {.name = "coco",
       .sentence = "Object detection in COCO's format: images, and one JSON file with the boxes of all.",
       .keys = {text_key("images", "The folder that the images' file_name is below."),
                text_key("annotations",
                         "The JSON file: lists images, annotations and categories. Classes are numbered by "
                         "the ids of their categories, gaps closed; other data than the training data go by "
                         "the categories' names.")},
       .make = make_coco_set,
       .from = [](const Parameters& p) { return p.text("annotations"); }});
}

}  // namespace autotrain
