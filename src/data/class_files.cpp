#include "data/class_files.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

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
  some.left_out = all.left_out;
  some.mostly_left_out = all.mostly_left_out;
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

constexpr const char* kJoinMarks = "convmv -f utf8 -t utf8 --nfc --notest FOLDER";

// Whether one has its accents apart from their letters, and the other has not: they look the same.
bool differ_by_marks_apart(const std::string& a, const std::string& b) {
  return has_marks_apart(a) != has_marks_apart(b) && outline_of(a) == outline_of(b);
}

int32_t class_index(const std::vector<std::string>& classes, const std::string& name, const fs::path& root,
                    const ClassSource& source) {
  const auto at = std::lower_bound(classes.begin(), classes.end(), name);
  if (at != classes.end() && *at == name) return static_cast<int32_t>(at - classes.begin());
  const auto alike = std::ranges::find_if(
      classes, [&](const std::string& other) { return differ_by_marks_apart(name, other); });
  throw Error(ExitCode::kBadData, (root / name).string(),
              cat("is no class of ", source.what, ", which has ", some_of(classes)),
              alike != classes.end()
                  ? cat("write the folder's accents as in ", *alike, " there: ", kJoinMarks)
                  : cat("remove the folder, or add the class to ", source.folder));
}

// The counts that the log announces.
struct Found {
  size_t classes = 0;
  int64_t images = 0;
  int64_t bytes = 0;
  int64_t others = 0;
  std::vector<std::string> without = {};  // classes of which no image is taken
};

void announce(const fs::path& root, const Found& found, int64_t taken) {
  const std::string classes = found.classes > 0 ? cat(" in ", found.classes, " classes") : "";
  log::info("data", cat(root.string(), ": ", format_count(found.images), " images", classes, " · ",
                        format_bytes(found.bytes),
                        found.others > 0 ? cat(" · ", found.others, " other files left out") : "",
                        taken < found.images ? cat(" · ", format_count(taken), " taken") : "",
                        found.without.empty() ? "" : cat(" · none of class ", some_of(found.without))));
}

// The folders that lie in a folder where images are looked for, which may be what was meant.
std::string folders_below(const fs::path& folder) {
  const std::vector<std::string> folders = list_folders(folder);
  if (folders.empty()) return "";
  return cat("; its folders are ", some_of(folders), ": a root's folders are the classes, so it may be ",
             folder.string(), " that is to be the root");
}

Listing list_class(const fs::path& folder) {
  Listing listing = list_images(folder);
  if (!listing.images.empty()) return listing;
  throw Error(ExitCode::kBadData, folder.string(),
              cat("holds no ", image_endings(), " file",
                  listing.left_out.empty() ? "" : cat(", but ", words_of_endings(listing.left_out))),
              cat("remove the folder, or put images of the class there", folders_below(folder)));
}

// Where a tenth or more of the files is left out.
void note_left_out(const fs::path& folder, const Listing& listing, ClassFiles& files) {
  int64_t left_out = 0;
  for (const auto& [ending, count] : listing.left_out) {
    left_out += count;
    files.left_out[ending] += count;
  }
  const int64_t all = left_out + std::ssize(listing.images);
  if (left_out == 0 || left_out * 10 < all) return;
  files.mostly_left_out.push_back(cat(folder.filename().string(), ": ", left_out, " of ", all, " files (",
                                      words_of_endings(listing.left_out), ")"));
}

void warn_of_left_out(const fs::path& root, const ClassFiles& files) {
  if (files.mostly_left_out.empty()) return;
  constexpr size_t kMostNamed = 5;
  std::vector<std::string> named = files.mostly_left_out;
  if (named.size() > kMostNamed) {
    named.resize(kMostNamed);
    named.push_back(cat("and so in ", files.mostly_left_out.size() - kMostNamed, " more folders"));
  }
  log::warn("data", cat(root.string(), ": left out, since their names do not end in ", image_endings(), ": ",
                        join(named, "; ")));
}

// Classes that look the same, one from a Mac.
void warn_of_marks_apart(const fs::path& root, const std::vector<std::string>& folders) {
  for (const auto& [joined, apart] : alike_but_for_marks(folders)) {
    log::warn("data", cat(root.string(), ": two classes may be one: ", quote(joined), " and ", quote(apart),
                          ", whose accents stand apart from their letters. Try: ", kJoinMarks));
  }
}

// What the names of a root's folders tell of classes that were not meant so.
// @throws Error(kBadData) where none of them can be one.
void doubt_classes(const fs::path& root, const std::vector<std::string>& folders) {
  if (folders.size() == 1) {
    log::warn("data", cat(root.string(), ": has one class only, ", quote(folders[0]),
                          ": there is nothing to tell apart. Try: name as root the folder whose folders are "
                          "the classes"));
  }
  // Folders beside each other that have only such names hold no classes: they are of a segmentation, or parts
  // of the data.
  static const std::set<std::string> kNoClasses = {"images",   "masks", "labels", "annotations",
                                                   "train",    "val",   "valid",  "validation",
                                                   "training", "test",  "testing"};
  const auto is_no_class = [](const std::string& folder) { return kNoClasses.contains(lower(folder)); };
  if (folders.size() > 1 && std::ranges::all_of(folders, is_no_class)) {
    throw Error(ExitCode::kBadData, root.string(),
                cat("its folders ", some_of(folders),
                    " would be its classes, and are called as parts of a data set, which are none"),
                "name as root the folder whose folders are the classes; of a segmentation, write images and "
                "masks as arrays (dataset: npy)");
  }
  std::map<std::string, std::string> by_sense;
  for (const std::string& folder : folders) {
    const auto [found, is_new] = by_sense.emplace(lower(trim(folder)), folder);
    if (is_new) continue;
    log::warn("data", cat(root.string(), ": ", quote(found->second), " and ", quote(folder),
                          " are two classes, and differ only in how they are written. Try: move the files "
                          "into one folder if they are the same"));
  }
  warn_of_marks_apart(root, folders);
}

// How many images lie in a folder and below it; what may not be read there has none.
int64_t count_images_below(const fs::path& folder) {
  try {
    return std::ssize(list_images_below(folder).images);
  } catch (const Error&) {
    return 0;
  }
}

// Images below the folders of classes are not read; a class folder without any of its own would have been
// refused.
void warn_of_folders_below(const std::vector<fs::path>& folders) {
  for (const fs::path& folder : folders) {
    const int64_t images = count_images_below(folder);
    if (images == 0) continue;
    return log::warn("data", cat(folder.string(), ": ", images,
                                 " images there are not read: those of a class lie in its folder itself. "
                                 "Try: move them up"));
  }
}

std::vector<std::string> classes_without_files(const ClassFiles& files) {
  std::vector<bool> has(files.class_names.size());
  for (const int32_t number : files.classes) has[static_cast<size_t>(number)] = true;
  std::vector<std::string> without;
  for (size_t i = 0; i < has.size(); ++i) {
    if (!has[i]) without.push_back(files.class_names[i]);
  }
  return without;
}

ClassFiles list_files(const fs::path& root, const ClassSource& source, const Selection& selection) {
  const std::vector<std::string> folders = class_names(root);
  ClassFiles files{.class_names = source.folder.empty() ? folders : class_names(source.folder)};
  Found found{.classes = folders.size()};
  std::vector<fs::path> below;  // the folders of classes
  for (const std::string& folder : folders) {
    const int32_t index = class_index(files.class_names, folder, root, source);
    const Listing listing = list_class(root / folder);
    for (const std::string& deeper : listing.folders) below.push_back(root / folder / deeper);
    found.images += std::ssize(listing.images);
    found.bytes += listing.image_bytes;
    found.others += listing.others;
    note_left_out(folder, listing, files);
    for (const std::string& image : listing.images) {
      const std::string name = cat(folder, "/", image);
      if (!selected(selection, name)) continue;
      files.names.add(name);
      files.classes.push_back(index);
    }
  }
  found.without = classes_without_files(files);
  announce(root, found, files.names.size());
  warn_of_left_out(root, files);
  if (source.folder.empty()) doubt_classes(root, folders);
  warn_of_folders_below(below);
  return files;
}

// The images in a folder and below it. @param prefix of their names: the folder's own path below the root.
// @param seen the folders that were listed: symbolic links may lead to them again, and in circles.
void list_below(const fs::path& folder, const std::string& prefix, std::set<fs::path>& seen,
                ClassFiles& files, Found& found) {
  if (!seen.insert(fs::canonical(folder)).second) return;
  const std::vector<std::string> folders = list_folders(folder);
  const Listing listing = list_images(folder);
  note_left_out(folder, listing, files);
  for (const std::string& image : listing.images) files.names.add(prefix + image);
  found.images += static_cast<int64_t>(listing.images.size());
  found.bytes += listing.image_bytes;
  found.others += listing.others - static_cast<int64_t>(folders.size());
  for (const std::string& below : folders)
    list_below(folder / below, cat(prefix, below, "/"), seen, files, found);
}

}  // namespace

void warn_of_unread_images(const fs::path& folder, const Endings& left_out) {
  // Of formats that are not read; what else lies beside images is none of them.
  static const std::set<std::string> kOthers = {".gif", ".avif", ".heic", ".heif", ".jxl", ".jp2",
                                                ".ppm", ".pgm",  ".tga",  ".psd",  ".svg", ".dng"};
  Endings unread;
  for (const auto& [ending, count] : left_out)
    if (kOthers.contains(ending)) unread.emplace(ending, count);
  if (unread.empty()) return;
  log::warn("data", cat(folder.string(), ": ", words_of_endings(unread),
                        " of images that are not read, and have no rows. Try: convert them to PNG or JPEG"));
}

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
  warn_of_left_out(root, files);
  if (files.mostly_left_out.empty()) warn_of_unread_images(root, files.left_out);
  if (files.names.size() > 0) return files;
  throw Error(ExitCode::kBadData, root.string(),
              cat("holds no ", image_endings(), " file, nor do its folders"), "name a folder of images");
}

ClassFiles find_class_files(const fs::path& root, const ClassSource& classes, const Selection& selection) {
  ClassFiles files = list_files(root, classes, selection);
  if (files.names.size() == 0) {
    throw Error(ExitCode::kBadData, root.string(), "no image falls into this split",
                "use more images, or another validation_share");
  }
  if (selection.limit && *selection.limit < files.names.size()) return spread(files, *selection.limit);
  return files;
}

FileNames list_class_images(const fs::path& root) {
  FileNames names;
  for (const std::string& folder : list_folders(root)) {
    for (const std::string& image : list_images(root / folder).images) names.add(cat(folder, "/", image));
  }
  return names;
}

void check_same_classes(const std::string& folder, const std::string& training) {
  const std::vector<std::string> own = class_names(folder), theirs = class_names(training);
  const auto lacks = [](const std::vector<std::string>& all, const std::string& name) {
    return !std::ranges::binary_search(all, name);
  };
  for (const auto& [some, others, in, by] :
       {std::tuple{&own, &theirs, &folder, &training}, std::tuple{&theirs, &own, &training, &folder}}) {
    const auto odd = std::ranges::find_if(
        *some, [&names = *others, &lacks](const std::string& name) { return lacks(names, name); });
    if (odd == some->end()) continue;
    throw Error(ExitCode::kBadData, (fs::path(*in) / *odd).string(),
                cat("is no class of ", *by, ": classes_from would number classes unlike the training data"),
                "leave classes_from out, which is that of the training data then");
  }
}

}  // namespace autotrain
