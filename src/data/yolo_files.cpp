#include "data/yolo_files.h"

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/files.h"
#include "base/text.h"
#include "base/units.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

void announce(const LabelledFiles& files, const Listing& listing, int64_t unlabelled) {
  log::info(
      "data",
      cat(files.images.string(), ": ", format_count(files.names.size()), " images · ",
          format_bytes(listing.image_bytes),
          listing.others > 0 ? cat(" · ", listing.others, " other files left out") : "",
          unlabelled > 0 ? cat(" · ", format_count(unlabelled), " without a label file: no boxes") : ""));
}

}  // namespace

fs::path LabelledFiles::label_path(int64_t index) const {
  return labels / fs::path(names[index]).replace_extension(".txt");
}

LabelledFiles find_labelled_files(const fs::path& images, const fs::path& labels,
                                  std::optional<int64_t> limit) {
  LabelledFiles files{.images = images, .labels = labels};
  const Listing listing = list_images(images);
  if (listing.images.empty()) {
    throw Error(ExitCode::kBadData, images.string(), "holds no .jpg, .jpeg or .png file");
  }
  int64_t unlabelled = 0;
  for (const std::string& name : listing.images) {
    if (limit && files.names.size() == *limit) break;
    files.names.add(name);
    std::error_code error;
    files.labelled.push_back(fs::is_regular_file(files.label_path(files.names.size() - 1), error));
    unlabelled += files.labelled.back() ? 0 : 1;
  }
  announce(files, listing, unlabelled);
  if (unlabelled < files.names.size()) return files;
  throw Error(ExitCode::kMissingFile, labels.string(), "has a label file for none of the images",
              "a label file has its image's name, with the ending .txt");
}

int64_t count_class_names(const fs::path& path) {
  int64_t names = 0;
  for (const std::string_view line : split(read_file(path, 64 * kMiB), '\n'))
    names += trim(line).empty() ? 0 : 1;
  if (names == 0) throw Error(ExitCode::kBadData, path.string(), "names no class", "write one name a line");
  return names;
}

}  // namespace autotrain
