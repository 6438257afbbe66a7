#include "data/yolo_files.h"

#include <algorithm>
#include <array>
#include <set>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/mapped_file.h"
#include "base/text.h"
#include "base/units.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

void announce(const LabelledFiles& files, const std::string& told, int64_t unlabelled) {
  log::info(
      "data",
      cat(files.where, ": ", format_count(files.names.size()), " images", told.empty() ? "" : " · ", told,
          unlabelled > 0 ? cat(" · ", format_count(unlabelled), " without a label file: no boxes") : ""));
  if (2 * unlabelled <= files.names.size() || unlabelled == files.names.size()) return;
  log::warn("data", cat(files.where, ": most images have no label file, ", format_count(unlabelled), " of ",
                        format_count(files.names.size()),
                        ", and are learned as images of nothing · try: give label files the names of their "
                        "images"));
}

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

// Where an image's label file may lie, the likeliest place first.
std::vector<fs::path> label_places(const LabelledFiles& files, int64_t image) {
  if (!files.labels.empty()) return {files.labels / fs::path(files.names[image]).replace_extension(".txt")};
  const fs::path path = files.image_path(image);
  return {label_beside(path), fs::path(path).replace_extension(".txt")};
}

// Whether a text begins with a number, as labels do, or is empty: a caption may lie beside its image, too.
bool begins_as_labels(const fs::path& path) {
  const MappedFile file(path);
  const auto* const bytes = reinterpret_cast<const char*>(file.bytes().data());
  const std::string_view text = trim(without_byte_order_mark({bytes, file.bytes().size()}));
  double number = 0;
  return text.empty() || parse_real(text.substr(0, text.find_first_of(" \t\r\n,;")), number);
}

// @param captions texts beside images that are no label files, although others of these have one in a folder.
void find_label(LabelledFiles& files, int64_t image, std::vector<std::string>& captions) {
  const std::vector<fs::path> places = label_places(files, image);
  std::error_code none;
  for (const fs::path& place : places) {
    for (const char* const ending : {".txt", ".TXT"}) {  // the latter as some programs of Windows write it
      const fs::path label = fs::path(place).replace_extension(ending);
      if (!is_file(label)) continue;
      const bool beside = &place != places.data();
      if (beside && fs::is_directory(places[0].parent_path(), none) && !begins_as_labels(label)) {
        captions.push_back(label.string());
        continue;
      }
      files.label_files.add(label.string());
      files.labelled.push_back(true);
      return;
    }
  }
  files.label_files.add(places.front().string());
  files.labelled.push_back(false);
}

// The label files of all images, those among them that several have, and the folders that they lie in.
struct LabelPaths {
  std::set<fs::path> files, folders;
  std::vector<std::string> shared;
  std::vector<std::string> repeated;  // images that are named before

  explicit LabelPaths(const LabelledFiles& all) {
    std::set<std::string_view> images;
    for (int64_t i = 0; i < all.names.size(); ++i) {
      const fs::path path = all.label_path(i);
      const bool named_before = !images.insert(all.names[i]).second;
      if (named_before) repeated.emplace_back(all.names[i]);
      if (!files.insert(path).second && !named_before) shared.push_back(path.filename().string());
      folders.insert(path.parent_path());
    }
  }
};

void warn_of_common_labels(const LabelPaths& paths, const std::string& where) {
  if (!paths.repeated.empty())
    log::warn("data", cat(where, ": ", paths.repeated.size(),
                          " images are named more than once, and count as often: ", some_of(paths.repeated),
                          " · try: name each once"));
  if (!paths.shared.empty())
    log::warn("data", cat(where, ": ", paths.shared.size(),
                          " images have the label file of another: ", some_of(paths.shared),
                          " · try: give images names that differ before their endings"));
}

// Some tools put a list of the classes beside label files; lists of images lie there, too.
bool is_label(const fs::path& path) {
  constexpr std::array kOthers = {"classes", "train", "val", "valid", "test", "names", "README"};
  const std::string stem = path.stem().string();
  return lower(path.extension().string()) == ".txt" && !stem.starts_with('.') &&
         std::ranges::find(kOthers, stem) == kOthers.end();
}

FileNames first_names(const FileNames& names, int64_t count) {
  FileNames first;
  for (int64_t i = 0; i < count; ++i) first.add(names[i]);
  return first;
}

// Label files that no image has.
void warn_of_lone_labels(const LabelPaths& paths, const std::string& where) {
  std::vector<std::string> lone;
  for (const fs::path& folder : paths.folders) {
    std::error_code error;
    for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
         entry.increment(error)) {
      if (is_label(entry->path()) && !paths.files.contains(folder / entry->path().filename()))
        lone.push_back(entry->path().filename().string());
    }
  }
  if (lone.empty()) return;
  std::ranges::sort(lone);
  log::warn("data", cat(paths.folders.begin()->string(), ": ", lone.size(),
                        " label files without an image in ", where, ": ", some_of(lone)));
}

}  // namespace

fs::path label_beside(const fs::path& image) {
  std::vector<fs::path> parts(image.begin(), image.end());
  auto last = std::find(parts.rbegin() + 1, parts.rend(), "images");
  if (last == parts.rend()) last = std::find(parts.rbegin() + 1, parts.rend(), "JPEGImages");
  if (last != parts.rend()) *last = "labels";
  fs::path label;
  for (const fs::path& part : parts) label /= part;
  return label.replace_extension(".txt");
}

fs::path label_folder(const fs::path& images) {
  return label_beside(images / "x").parent_path();
}

LabelledFiles with_label_files(FoundImages found, std::optional<int64_t> limit) {
  LabelledFiles files{.where = std::move(found.where), .images = found.folder, .labels = found.labels};
  for (const std::string& name : found.names) files.names.add(name);
  std::vector<std::string> captions;
  for (int64_t i = 0; i < files.names.size(); ++i) find_label(files, i, captions);
  if (!captions.empty())
    log::warn("data", cat(files.where, ": ", captions.size(),
                          " texts beside images do not begin with a class's number, and are no labels: ",
                          some_of(captions)));
  const LabelPaths paths(files);
  warn_of_common_labels(paths, files.where);
  if (!found.some) warn_of_lone_labels(paths, files.where);
  if (limit && *limit < files.names.size()) {
    files.names = first_names(files.names, *limit);
    files.label_files = first_names(files.label_files, *limit);
    files.labelled.resize(static_cast<size_t>(*limit));
  }
  const int64_t unlabelled = std::ranges::count(files.labelled, false);
  announce(files, found.told, unlabelled);
  if (unlabelled < files.names.size()) return files;
  throw Error(ExitCode::kMissingFile, files.labels.empty() ? files.where : files.labels.string(),
              cat("has a label file for none of the images; that of ", std::string(files.names[0]),
                  " would be ", files.label_path(0).string()),
              "a label file has its image's name, with the ending .txt");
}

FoundImages find_images(const fs::path& folder) {
  Listing listing = list_images_below(folder);
  if (listing.images.empty()) {
    throw Error(ExitCode::kBadData, folder.string(),
                cat("holds no ", image_endings(), " file",
                    listing.left_out.empty() ? "" : cat(", but ", words_of_endings(listing.left_out))),
                "name the folder that holds the images");
  }
  std::string told = format_bytes(listing.image_bytes);
  if (!listing.folders.empty()) told += cat(" · in ", listing.folders.size(), " folders below it");
  if (listing.others > 0) told += cat(" · ", listing.others, " other files left out");
  return {.where = folder.string(),
          .folder = folder,
          .names = std::move(listing.images),
          .told = told,
          .left_out = std::move(listing.left_out)};
}

}  // namespace autotrain
