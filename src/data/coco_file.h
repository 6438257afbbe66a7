#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/file_names.h"
#include "data/image_file.h"
#include "data/yolo_check.h"

namespace autotrain {

/// A file of annotations as COCO has them (cocodataset.org, "data format"): its boxes, by the images that it
/// names. Outlines and key points are left out.
struct CocoAnnotations {
  std::vector<std::string> classes =
      {};                             ///< names of the categories, by their ids, of which some may be missing
  FileNames images = {};              ///< in the file's order
  std::vector<ImageSize> sizes = {};  ///< of the images, as the file says
  /// The ids of images and of classes. A class that this file lacks has the id that the training data give
  /// it; it has kNoCategoryId where another class has that id here.
  std::vector<int64_t> image_ids = {}, category_ids = {};
  ReadLabels boxes = {};
  int64_t crowds = 0;      ///< boxes of objects that nobody told apart
  int64_t unlabelled = 0;  ///< images without a box
};

/// The categories of a file.
struct CocoClasses {
  std::vector<std::string> names = {};
  std::vector<int64_t> ids = {};  ///< rising
};

/// How a file of annotations is read.
struct CocoReading {
  std::filesystem::path images;       ///< the folder of the image files
  ImageSize size;                     ///< of a sample, in which a box of less than two pixels says little
  bool upright = true;                ///< images are turned as their metadata say
  bool keeps_crowds = false;          ///< they take part in an evaluation, and nothing is learned of them
  CocoClasses classes = {};           ///< those of the training data, by which boxes are numbered
  std::optional<int64_t> limit = {};  ///< the first so many images
};

/// Reads the file event by event, so that one of hundreds of megabytes takes the memory of its boxes.
/// @throws Error(kMissingFile) when it or an image is not there; Error(kBadData) when it is no such file.
CocoAnnotations read_coco(const std::filesystem::path& file, const CocoReading& reading);

/// @throws as read_coco.
CocoClasses read_coco_classes(const std::filesystem::path& file);

}  // namespace autotrain
