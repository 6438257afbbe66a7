#pragma once

#include <filesystem>
#include <optional>

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

/// Lists the files and says at level info how many there are, and how many without labels.
/// @throws Error(kMissingFile) when a folder or image cannot be read or no image has labels; Error(kBadData)
/// when there is no image.
LabelledFiles find_labelled_files(const std::filesystem::path& images, const std::filesystem::path& labels,
                                  std::optional<int64_t> limit);

/// Lines of a file of class names that are not empty.
/// @throws Error(kMissingFile); Error(kBadData) when there is none.
int64_t count_class_names(const std::filesystem::path& path);

}  // namespace autotrain
