#include "data/yolo_files.h"

#include <algorithm>
#include <set>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/files.h"
#include "base/text.h"
#include "base/units.h"
#include "recipe/yaml_tree.h"

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
  if (2 * unlabelled <= files.names.size() || unlabelled == files.names.size()) return;
  log::warn("data",
            cat(files.labels.string(), ": most images have no label file, ", format_count(unlabelled), " of ",
                format_count(files.names.size()),
                ", and are learned as images of nothing · try: give label files the names of their images"));
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

[[noreturn]] void fail_names(const Location& at, const std::string& what) {
  throw Error(ExitCode::kBadData, at.text(), what,
              "have names: a list of the classes in the order of their numbers, or a map from 0, 1, …");
}

const std::string& text_of(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::kScalar) fail_names(node.location, "is no name");
  return node.scalar;
}

// A map from numbers, or a list.
std::vector<std::string> names_of_node(const YamlNode& node) {
  std::vector<std::string> names;
  if (node.kind == YamlNode::Kind::kSequence) {
    for (const YamlNode& name : node.items) names.push_back(text_of(name));
    return names;
  }
  if (node.kind != YamlNode::Kind::kMap) fail_names(node.location, "names is neither a list nor a map");
  names.resize(node.entries.size());
  for (const YamlEntry& entry : node.entries) {  // whose keys are distinct
    int64_t number = -1;
    if (!parse_integer(entry.key, number) || number < 0 || number >= std::ssize(names))
      fail_names(entry.key_location, cat("the class ", quote(entry.key), " is not a number from 0 to ",
                                         names.size() - 1, ", of ", names.size(), " names"));
    std::string& name = names[static_cast<size_t>(number)];
    if (!name.empty()) fail_names(entry.key_location, cat("the class ", number, " is named twice"));
    name = text_of(entry.value);
  }
  return names;
}

std::vector<std::string> names_of_root(const YamlNode& root) {
  if (root.kind == YamlNode::Kind::kSequence) return names_of_node(root);
  const YamlEntry* const names = root.find("names");
  const YamlEntry* const count = root.find("nc");
  if (names == nullptr && count == nullptr) fail_names(root.location, "has no key names");
  int64_t stated = 0;
  if (count != nullptr && (!parse_integer(text_of(count->value), stated) || stated < 1 || stated > 1 << 20))
    fail_names(count->value.location, "nc is no number of classes");
  std::vector<std::string> found;
  if (names != nullptr) {
    found = names_of_node(names->value);
  } else {
    for (int64_t i = 0; i < stated; ++i) found.push_back(std::to_string(i));
  }
  if (count != nullptr && stated != std::ssize(found))
    fail_names(count->value.location, cat("nc is ", stated, ", and names has ", found.size()));
  return found;
}

std::vector<std::string> names_of_yaml(const fs::path& path, const std::string& text) {
  try {
    return names_of_root(parse_yaml(text, path.string()));
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadRecipe) throw;
    throw Error(ExitCode::kBadData, error.where(), error.problem(), error.hint());  // it is data here
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
                cat("holds no ", image_endings(), " file",
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
