#include "data/class_files.h"

#include <algorithm>
#include <set>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/random.h"
#include "base/text.h"
#include "base/units.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

// A file's side does not change when others come and go.
bool is_validation(std::string_view name, double share) {
  return static_cast<double>(mix(fnv1a(name)) >> 11) * 0x1p-53 < share;
}

bool selected(const Selection& selection, std::string_view name) {
  return selection.split == Split::kAll ||
         is_validation(name, selection.validation_share) == (selection.split == Split::kValidation);
}

// Every (N ÷ limit)-th file, so that every class keeps its share.
ClassFiles spread(const ClassFiles& all, int64_t limit) {
  ClassFiles some;
  some.class_names = all.class_names;
  for (int64_t i = 0; i < limit; ++i) {
    const int64_t at = i * all.names.size() / limit;
    some.names.add(all.names[at]);
    some.classes.push_back(all.classes[static_cast<size_t>(at)]);
  }
  return some;
}

std::vector<std::string> class_names(const fs::path& folder) {
  std::vector<std::string> names = list_folders(folder);
  if (names.empty()) {
    throw Error(ExitCode::kBadData, folder.string(), "holds no folders",
                "it must hold one folder of images for each class");
  }
  return names;
}

int32_t class_index(const std::vector<std::string>& classes, const std::string& name, const fs::path& root) {
  const auto at = std::lower_bound(classes.begin(), classes.end(), name);
  if (at != classes.end() && *at == name) return static_cast<int32_t>(at - classes.begin());
  throw Error(ExitCode::kBadData, (root / name).string(), "is no class of classes_from",
              "remove the folder, or add the class there");
}

// The counts that the log announces.
struct Found {
  size_t classes = 0;
  int64_t images = 0;
  int64_t bytes = 0;
  int64_t others = 0;
};

void announce(const fs::path& root, const Found& found, int64_t taken) {
  const std::string classes = found.classes > 0 ? cat(" in ", found.classes, " classes") : "";
  log::info("data", cat(root.string(), ": ", format_count(found.images), " images", classes, " · ",
                        format_bytes(found.bytes),
                        found.others > 0 ? cat(" · ", found.others, " other files left out") : "",
                        taken < found.images ? cat(" · ", format_count(taken), " taken") : ""));
}

Listing list_class(const fs::path& folder) {
  Listing listing = list_images(folder);
  if (!listing.images.empty()) return listing;
  throw Error(ExitCode::kBadData, folder.string(), "holds no .jpg, .jpeg or .png file",
              "remove the folder, or put images of the class there");
}

ClassFiles list_files(const fs::path& root, const std::string& classes_from, const Selection& selection) {
  const std::vector<std::string> folders = class_names(root);
  const std::vector<std::string> classes = classes_from.empty() ? folders : class_names(classes_from);
  ClassFiles files{.class_names = classes};
  Found found{.classes = folders.size()};
  for (const std::string& folder : folders) {
    const int32_t index = class_index(classes, folder, root);
    const Listing listing = list_class(root / folder);
    found.images += static_cast<int64_t>(listing.images.size());
    found.bytes += listing.image_bytes;
    found.others += listing.others;
    for (const std::string& image : listing.images) {
      const std::string name = cat(folder, "/", image);
      if (!selected(selection, name)) continue;
      files.names.add(name);
      files.classes.push_back(index);
    }
  }
  announce(root, found, files.names.size());
  return files;
}

// The images in a folder and below it. @param prefix of their names: the folder's own path below the root.
// @param seen the folders that were listed: symbolic links may lead to them again, and in circles.
void list_below(const fs::path& folder, const std::string& prefix, std::set<fs::path>& seen,
                ClassFiles& files, Found& found) {
  if (!seen.insert(fs::canonical(folder)).second) return;
  const std::vector<std::string> folders = list_folders(folder);
  const Listing listing = list_images(folder);
  for (const std::string& image : listing.images) files.names.add(prefix + image);
  found.images += static_cast<int64_t>(listing.images.size());
  found.bytes += listing.image_bytes;
  found.others += listing.others - static_cast<int64_t>(folders.size());
  for (const std::string& below : folders)
    list_below(folder / below, cat(prefix, below, "/"), seen, files, found);
}

}  // namespace

ClassFiles find_files_without_classes(const fs::path& root) {
  ClassFiles files;
  if (fs::is_regular_file(root)) {
    files.names.add(root.filename().string());
    return files;
  }
  Found found;
  std::set<fs::path> seen;
  list_below(root, "", seen, files, found);
  announce(root, found, files.names.size());
  if (files.names.size() > 0) return files;
  throw Error(ExitCode::kBadData, root.string(), "holds no .jpg, .jpeg or .png file, nor do its folders",
              "name a folder of images");
}

ClassFiles find_class_files(const fs::path& root, const std::string& classes_from,
                            const Selection& selection) {
  ClassFiles files = list_files(root, classes_from, selection);
  if (files.names.size() == 0) {
    throw Error(ExitCode::kBadData, root.string(), "no image falls into this split",
                "use more images, or another validation_share");
  }
  if (selection.limit && *selection.limit < files.names.size()) return spread(files, *selection.limit);
  return files;
}

}  // namespace autotrain
