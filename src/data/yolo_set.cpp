#include <optional>

#include "autotrain/error.h"
#include "base/enum_names.h"
#include "base/text.h"
#include "data/detection_dataset.h"
#include "data/detection_look.h"
#include "data/yolo_check.h"
#include "data/yolo_description.h"
#include "data/yolo_files.h"
#include "data/yolo_labels.h"

namespace autotrain {
namespace {

// Of a recipe's data set.
struct YoloClasses {
  int64_t count = 0;  // 0: it does not say
  std::vector<std::string> names = {};
};

YoloClasses stated_classes(const Parameters& p) {
  const std::optional<int64_t> typed = p.optional_integer("classes");
  const std::string path = p.text("names").empty() ? p.text("file") : p.text("names");
  if (path.empty()) return {typed.value_or(0)};
  YoloClasses classes{.names = read_class_names(path)};
  classes.count = std::ssize(classes.names);
  if (!typed || *typed == classes.count) return classes;
  throw Error(ExitCode::kBadRecipe, "yolo: classes",
              cat("is ", *typed, ", and ", path, " has ", classes.count, " names"), "leave one of them out");
}

// Those of the training data, where these are other data: a class has one number in all of a run.
YoloClasses classes_of(const DatasetRequest& request) {
  const YoloClasses own = stated_classes(request.parameters);
  const YoloClasses training =
      request.training != nullptr ? stated_classes(*request.training) : YoloClasses{};
  if (own.count == 0 && training.count > 0) return training;
  if (own.count == 0) {
    throw Error(ExitCode::kBadRecipe, "yolo: classes", "is not set",
                "set classes, or names to a file of them, or file to a data.yaml");
  }
  const bool alike = own.names == training.names || own.names.empty() || training.names.empty();
  if (training.count == 0 || (own.count == training.count && alike)) return own;
  const auto words = [](const YoloClasses& classes) {
    return classes.names.empty() ? cat(classes.count) : cat(classes.count, " (", some_of(classes.names), ")");
  };
  throw Error(ExitCode::kBadRecipe, own.names.empty() ? "yolo: classes" : "yolo: names",
              cat("has other classes, ", words(own), ", than the training data, ", words(training)),
              "leave it out: classes are those of the training data then");
}

YoloSplit described_split(const Parameters& p) {
  const std::string word = p.text("split");
  if (const std::optional<YoloSplit> split = parse_enum<YoloSplit>(word)) return *split;
  if (word == "valid" || word == "validation") return YoloSplit::kValidation;  // as descriptions may say, too
  throw Error(ExitCode::kBadRecipe, "yolo: split",
              word.empty() ? "is not set, and file has several parts"
                           : cat("is ", quote(word), ", which is no part of a data.yaml"),
              cat("set split: ", join_choices(choices_of<YoloSplit>())));
}

FoundImages find_yolo_images(const DatasetRequest& request) {
  const Parameters& p = request.parameters;
  const std::string file = p.text("file"), images = p.text("images");
  if (file.empty() == images.empty()) {
    throw Error(ExitCode::kBadRecipe, "yolo: images",
                file.empty() ? "is not set, and neither is file" : "is set beside file",
                "name a folder of images, or as file a data.yaml that names them");
  }
  FoundImages found = file.empty() ? find_images(images) : find_described_images(file, described_split(p));
  found.labels = p.text("labels");
  if (!found.labels.empty() && !found.names.empty() && std::filesystem::path(found.names[0]).is_absolute()) {
    throw Error(
        ExitCode::kBadRecipe, "yolo: labels",
        cat("names one folder, and ", found.where, " has images by their paths, or in several folders"),
        "leave labels out: the label file of …/images/a.jpg is …/labels/a.txt; or name one folder of "
        "images");
  }
  return found;
}

std::unique_ptr<Dataset> make_yolo_set(const DatasetRequest& request) {
  const Parameters& p = request.parameters;
  FoundImages found = find_yolo_images(request);
  YoloClasses classes = classes_of(request);
  const DetectionDataset::Options options = detection_options(request, classes.count);
  LabelledFiles files = with_label_files(std::move(found), p.optional_integer("limit"));
  ReadLabels labels = read_labels(
      files, {.classes = classes.count, .longer_lines = *parse_enum<LongerLines>(p.text("longer_lines"))},
      options.size);
  const std::string where = files.labels.empty() ? files.where : files.labels.string();
  auto data = std::make_unique<DetectionDataset>(LabelledImages{.folder = std::move(files.images),
                                                                .names = std::move(files.names),
                                                                .boxes = std::move(labels.boxes),
                                                                .faulty = std::move(labels.faulty),
                                                                .classes = std::move(classes.names),
                                                                .summary = std::move(labels.summary)},
                                                 options);
  tell_boxes_at_start(*data, where, request.skips_bad);
  return data;
}

}  // namespace

DatasetRow yolo_row() {
  return detection_row_of(
      {.name = "yolo",
       .sentence = "Object detection in YOLO's format: images, and for each a text file with a line \"class "
                   "cx cy w h\" for every box.",
       .keys = {text_key("images", "The folder of the image files, and of folders of them."),
                text_key("labels",
                         "The folder of the label files; an image without one has no boxes. null: the folder "
                         "labels beside the folder images of an image's path, or the image's own folder."),
                text_key(
                    "file",
                    "In place of images: a data.yaml, which names the images of each part, and the classes."),
                text_key("split",
                         cat("With file: which part of it: ", join_choices(choices_of<YoloSplit>()), ".")),
                integer_key("classes", "Classes; null: as many as names has, or those of the training data.")
                    .from(1, 1 << 20),
                text_key("names",
                         "A file with the name of a class on each line, or a YAML file with a list or map "
                         "names; null: those of file, or classes counts them."),
                word_key("longer_lines",
                         "What is made of a label's line of more than five values: refuse; polygon: the box "
                         "around its corners; drop: what stands behind the fifth is left out.",
                         choices_of<LongerLines>(), "refuse")},
       .as_training = {"longer_lines"},
       .make = make_yolo_set,
       .from = [](const Parameters& p) { return p.text(p.text("images").empty() ? "file" : "images"); }});
}

}  // namespace autotrain
