#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/file_names.h"

namespace autotrain {

/// Image files, and the label file of each.
struct LabelledFiles {
  std::string where = {};             ///< they are from, in messages: a folder, or a key of a file
  std::filesystem::path images = {};  ///< the folder that names are below; a name may be absolute
  /// Below it lie label files; empty: each lies where `label_beside` says, or else beside its image.
  std::filesystem::path labels = {};
  FileNames names = {};             ///< of images
  FileNames label_files = {};       ///< of each, or where it would lie
  std::vector<bool> labelled = {};  ///< whether each is there

  std::filesystem::path image_path(int64_t index) const { return images / names[index]; }
  std::filesystem::path label_path(int64_t index) const { return label_files[index]; }
};

/// Where the label file of an image lies that nothing else is said of: at the same place in a folder "labels"
/// that stands beside the last folder "images" of its path, or "JPEGImages" as of PASCAL VOC; without such a
/// folder, beside the image.
std::filesystem::path label_beside(const std::filesystem::path& image);

/// Where label files of images in that folder lie, by the same rule.
std::filesystem::path label_folder(const std::filesystem::path& images);

/// Images that were found, whose label files are to be looked for.
struct FoundImages {
  std::string where = {};  ///< in messages
  std::filesystem::path folder = {};
  std::filesystem::path labels = {};    ///< as in LabelledFiles
  std::vector<std::string> names = {};  ///< below the folder, or absolute
  std::string told = {};                ///< "1.2 GB · 3 other files left out"
  Endings left_out = {};                ///< of files that have no image's ending
  bool some = false;                    ///< of those that label files are for, as a list file names some
};

/// Looks for the label files of the images, the first `limit` of them; says at level info how many have none,
/// and warns of label files without an image, of images that share one and of those that are named twice.
/// @throws Error(kMissingFile) when no image has labels.
LabelledFiles with_label_files(FoundImages found, std::optional<int64_t> limit);

/// The images of a folder and of those in it, sorted by name.
/// @throws Error(kMissingFile) when a folder or image cannot be read; Error(kBadData) when there is none.
FoundImages find_images(const std::filesystem::path& folder);

}  // namespace autotrain
