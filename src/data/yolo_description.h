#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "base/enum_names.h"
#include "data/yolo_files.h"

namespace autotrain {

/// A part of a described data set.
enum class YoloSplit { kTrain, kValidation, kTest };

constexpr auto enum_names(YoloSplit) {
  using S = YoloSplit;
  return std::array{EnumName<S>{S::kTrain, "train"}, EnumName<S>{S::kValidation, "val"},
                    EnumName<S>{S::kTest, "test"}};
}

/// The images that a detector's description (data.yaml) names for a part: a folder, a list file of images, or
/// a list of such. Paths are below its key `path`, or else below the folder that the file lies in; "../" at
/// their beginning is left out where nothing is there.
/// @throws Error(kMissingFile) when one is not there; Error(kBadData) naming the line when the part is not
/// described.
FoundImages find_described_images(const std::filesystem::path& description, YoloSplit split);

/// The files and folders that a description names for all parts, those of listed images, and the folders of
/// their labels, where they are to be found; whether all are there is not said.
std::vector<std::filesystem::path> described_places(const std::filesystem::path& description);

/// The names in a file of class names: one on each line, empty ones skipped; or, of a YAML file as detectors
/// are described by, those of its key names, a list or a map from numbers, or so many numbers as its key nc
/// says.
/// @throws Error(kMissingFile); Error(kBadData) when there is none, or the file contradicts itself.
std::vector<std::string> read_class_names(const std::filesystem::path& path);

}  // namespace autotrain
