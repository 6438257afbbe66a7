#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/enum_names.h"
#include "data/file_names.h"

namespace autotrain {

/// The files of a folder of class folders, by class and then by name.
struct ClassFiles {
  FileNames names = {};                       ///< "class/file"
  std::vector<int32_t> classes = {};          ///< of each file
  std::vector<std::string> class_names = {};  ///< in the order of their numbers; empty: there are no classes
  Endings left_out = {};                      ///< files that no image's name has
  std::vector<std::string> mostly_left_out = {};  ///< folders in which that is a tenth of the files or more
};

enum class Split { kAll, kTrain, kValidation };

constexpr auto enum_names(Split) {
  return std::array{EnumName<Split>{Split::kAll, "all"}, EnumName<Split>{Split::kTrain, "train"},
                    EnumName<Split>{Split::kValidation, "validation"}};
}

/// Which of the files are wanted.
struct Selection {
  Split split = Split::kAll;
  double validation_share = 0;        ///< that a hash of the name gives to the validation split
  std::optional<int64_t> limit = {};  ///< so many, evenly from the list
};

/// Warns of images in a folder whose endings are of formats that are not read.
void warn_of_unread_images(const std::filesystem::path& folder, const Endings& left_out);

/// The images below `root` by their paths, however deep they lie, without classes; or the one file that it
/// is. Says at level info how many there are, and warns of those that are not read.
/// @throws Error(kMissingFile) when a folder or file cannot be read; Error(kBadData) when there is no image.
ClassFiles find_files_without_classes(const std::filesystem::path& root);

/// What numbers the classes of a folder.
struct ClassSource {
  std::string folder = {};  ///< its class folders do; empty: those of the folder itself
  std::string what = {};    ///< words for it in errors: "the training data"
};

/// Lists the images below `root`; says at level info how many there are and which classes have none, and
/// warns of a class of which a tenth or more of the files is left out.
/// @throws Error(kMissingFile) when a folder or file cannot be read; Error(kBadData) when there is no class
/// folder, one without images, one that is no class of the source, or nothing is left of the split.
ClassFiles find_class_files(const std::filesystem::path& root, const ClassSource& classes,
                            const Selection& selection);

/// All images of a root's class folders, as "class/file", without a word.
FileNames list_class_images(const std::filesystem::path& root);

/// @throws Error(kBadData) naming a class folder that only one of the two folders has: both are to number
/// classes alike.
void check_same_classes(const std::string& folder, const std::string& training);

}  // namespace autotrain
