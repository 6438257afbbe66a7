#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/file_names.h"

namespace autotrain {

/// Images of one folder, sorted by name, and the files of their labels in another.
struct LabelledFiles {
  std::filesystem::path images = {};  ///< folders
  std::filesystem::path labels = {};
  FileNames names = {};             ///< of images
  std::vector<bool> labelled = {};  ///< whether each has a label file

  /// "labels/a.txt" of "images/a.jpg".
  std::filesystem::path label_path(int64_t index) const;
};

/// Lists the files; says at level info how many there are, and how many images without labels, and warns of
/// label files without an image.
/// @throws Error(kMissingFile) when a folder or image cannot be read or no image has labels; Error(kBadData)
/// when there is no image.
LabelledFiles find_labelled_files(const std::filesystem::path& images, const std::filesystem::path& labels,
                                  std::optional<int64_t> limit);

/// The names in a file of class names: one on each line, empty ones skipped; or, of a YAML file as detectors
/// are described by (data.yaml), those of its key names, a list or a map from numbers, or so many numbers as
/// its key nc says.
/// @throws Error(kMissingFile); Error(kBadData) when there is none, or the file contradicts itself.
std::vector<std::string> read_class_names(const std::filesystem::path& path);

}  // namespace autotrain
