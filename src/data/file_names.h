#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace autotrain {

/// A list of names end to end in one block of memory: a million files in some thirty bytes each.
class FileNames {
 public:
  void add(std::string_view name) {
    names_.append(name);
    ends_.push_back(names_.size());
  }
  int64_t size() const { return static_cast<int64_t>(ends_.size()); }
  std::string_view operator[](int64_t i) const {
    const size_t begin = i == 0 ? 0 : ends_[static_cast<size_t>(i - 1)];
    return std::string_view(names_).substr(begin, ends_[static_cast<size_t>(i)] - begin);
  }

 private:
  std::string names_;
  std::vector<size_t> ends_;
};

/// A path whose folders are set apart by slashes, as Windows does not write it.
std::string with_slashes(std::string path);

/// Whether two paths are of one file or folder, by links, too.
bool are_same(const std::filesystem::path& one, const std::filesystem::path& other);

/// Whether two files are one, or the one is a copy of the other. Reads both as far as they are alike, where
/// they have one size.
bool have_same_bytes(const std::filesystem::path& one, const std::filesystem::path& other);

/// Whether accents stand apart from their letters in a name, as Macs write them ("e" and U+0301 for "é").
bool has_marks_apart(std::string_view name);

/// The name with "?" in the place of each character that has an accent or is not ASCII. Names that differ
/// only in whether accents stand apart have the same outline; others may have it, too.
std::string outline_of(std::string_view name);

/// Names of one outline of which the second has its accents apart from their letters and the first has not:
/// they may be the same.
std::vector<std::pair<std::string, std::string>> alike_but_for_marks(const std::vector<std::string>& names);

/// How many files have each ending.
using Endings = std::map<std::string, int64_t>;

/// "12 .gif, 3 without an ending"
std::string words_of_endings(const Endings& endings);

/// What a file's name must end in, in any case, to be taken for an image; what it is, its content says.
/// ".jpg, … or .bmp".
std::string image_endings();

/// What lies in a folder, hidden entries left out.
struct Listing {
  std::vector<std::string> images = {};  ///< names of files with an image's ending, sorted
  int64_t image_bytes = 0;
  int64_t others = 0;                     ///< entries that are no images
  Endings left_out = {};                  ///< of others that are no folders
  std::vector<std::string> folders = {};  ///< names of others that are, sorted
};

/// @throws Error(kMissingFile) when the folder, or an image in it, is not there or may not be read.
Listing list_images(const std::filesystem::path& folder);

/// The same of a folder and of all folders in it: images by their paths below it, sorted; `folders` are those
/// that were looked into. A folder that is linked to from within itself is looked into once.
Listing list_images_below(const std::filesystem::path& folder);

/// The names of the folders in a folder, sorted; hidden ones are left out.
/// @throws Error(kMissingFile).
std::vector<std::string> list_folders(const std::filesystem::path& folder);

}  // namespace autotrain
