#include "data/yolo_files.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <set>

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

// Label files that no image has; some tools put a list of the classes beside them.
void warn_of_lone_labels(const LabelledFiles& files, const std::vector<std::string>& images) {
  std::set<std::string> stems;
  for (const std::string& image : images) stems.insert(fs::path(image).stem().string());
  std::vector<std::string> lone;
  std::error_code error;
  for (fs::directory_iterator entry(files.labels, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const fs::path& path = entry->path();
    const std::string stem = path.stem().string();
    if (path.extension() == ".txt" && stem != "classes" && !stem.starts_with('.') && !stems.contains(stem))
      lone.push_back(path.filename().string());
  }
  if (lone.empty()) return;
  std::ranges::sort(lone);
  log::warn("data", cat(files.labels.string(), ": ", lone.size(), " label files without an image in ",
                        files.images.string(), ": ", some_of(lone)));
}

std::vector<std::string> names_of_lines(std::string_view text) {
  std::vector<std::string> names;
  for (const std::string_view line : split(text, '\n')) {
    if (!trim(line).empty()) names.emplace_back(trim(line));
  }
  return names;
}

// By its name, or by a line that no list of names has.
bool is_yaml(const fs::path& path, std::string_view text) {
  const std::string ending = lower(path.extension().string());
  if (ending == ".yaml" || ending == ".yml" || ending == ".json") return true;
  return std::ranges::any_of(split(text, '\n'), [](std::string_view line) {
    return line.starts_with("names:") || line.starts_with("nc:");
  });
}

[[noreturn]] void fail_names(const fs::path& path, const YAML::Mark& mark, const std::string& what) {
  const std::string place = mark.is_null() ? "" : cat(":", mark.line + 1, ":", mark.column + 1);
  throw Error(ExitCode::kBadData, path.string() + place, what,
              "have names: a list of the classes in the order of their numbers, or a map from 0, 1, …");
}

// A map from numbers, or a list.
std::vector<std::string> names_of_node(const fs::path& path, const YAML::Node& node) {
  std::vector<std::string> names;
  if (node.IsSequence()) {
    for (const YAML::Node& name : node) names.push_back(name.as<std::string>());
    return names;
  }
  if (!node.IsMap()) fail_names(path, node.Mark(), "names is neither a list nor a map");
  names.resize(node.size());
  std::vector<bool> named(names.size());
  for (const auto& entry : node) {
    int64_t number = -1;
    if (!parse_integer(entry.first.as<std::string>(), number) || number < 0 || number >= std::ssize(names))
      fail_names(path, entry.first.Mark(),
                 cat("the class ", quote(entry.first.as<std::string>()), " is not a number from 0 to ",
                     names.size() - 1, ", of ", names.size(), " names"));
    if (named[static_cast<size_t>(number)])
      fail_names(path, entry.first.Mark(), cat("the class ", number, " is named twice"));
    named[static_cast<size_t>(number)] = true;
    names[static_cast<size_t>(number)] = entry.second.as<std::string>();
  }
  return names;
}

std::vector<std::string> names_of_yaml(const fs::path& path, const std::string& text) {
  try {
    const YAML::Node root = YAML::Load(text);
    if (root.IsSequence()) return names_of_node(path, root);
    if (!root.IsMap() || (!root["names"] && !root["nc"])) fail_names(path, root.Mark(), "has no key names");
    const bool counted = root["nc"].IsDefined();
    const int64_t stated = counted ? root["nc"].as<int64_t>() : 0;
    std::vector<std::string> names;
    if (root["names"]) {
      names = names_of_node(path, root["names"]);
    } else {
      for (int64_t i = 0; i < std::min<int64_t>(stated, 1 << 20); ++i) names.push_back(cat(i));
    }
    if (counted && stated != std::ssize(names))
      fail_names(path, root["nc"].Mark(), cat("nc is ", stated, ", and names has ", names.size()));
    return names;
  } catch (const YAML::Exception& error) {
    fail_names(path, error.mark, error.msg);
  }
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
    throw Error(ExitCode::kBadData, images.string(),
                cat("holds no ", kImageEndings, " file",
                    listing.left_out.empty() ? "" : cat(", but ", words_of_endings(listing.left_out))),
                "name the folder that holds the images themselves");
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
  warn_of_lone_labels(files, listing.images);
  if (unlabelled < files.names.size()) return files;
  throw Error(ExitCode::kMissingFile, labels.string(), "has a label file for none of the images",
              "a label file has its image's name, with the ending .txt");
}

std::vector<std::string> read_class_names(const fs::path& path) {
  const std::string content = read_file(path, 64 * kMiB);
  std::string_view text = content;
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  std::vector<std::string> names =
      is_yaml(path, text) ? names_of_yaml(path, std::string(text)) : names_of_lines(text);
  if (names.empty())
    throw Error(ExitCode::kBadData, path.string(), "names no class", "write one name a line");
  return names;
}

}  // namespace autotrain
