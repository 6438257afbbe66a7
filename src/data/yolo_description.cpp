#include "data/yolo_description.h"

#include <algorithm>
#include <optional>
#include <set>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/files.h"
#include "base/text.h"
#include "base/units.h"
#include "data/file_kinds.h"
#include "recipe/yaml_tree.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

std::string text_of_file(const fs::path& path) {
  return std::string(without_byte_order_mark(read_file(path, 64 * kMiB)));
}

std::span<const uint8_t> raw_bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// A list of names or images, whose lines are taken as they stand.
void refuse_marked_encoding(const fs::path& path, std::string_view text) {
  const FileKind encoding = encoding_of_text(raw_bytes(text));
  if (encoding.name.empty()) return;
  throw Error(ExitCode::kBadData, path.string(), cat("is text in ", encoding.name), encoding.cure);
}

// Names of classes are written to JSON, which holds no other text, and letters that are lost there may be all
// that tells two of them apart.
void refuse_other_letters(const fs::path& path, std::string_view text,
                          const std::vector<std::string>& names) {
  if (first_invalid_utf8(raw_bytes(text)) == text.size()) return;
  const auto is_valid = [](const std::string& name) {
    const std::string line = name + "\n";  // which a last letter may not reach into
    return first_invalid_utf8(raw_bytes(line)) == line.size() && name.find("\ufffd") == std::string::npos;
  };
  if (std::ranges::all_of(names, is_valid)) return;
  throw Error(ExitCode::kBadData, path.string(),
              "is no text in UTF-8, as older programs write letters with accents",
              "convert it: iconv -f WINDOWS-1252 -t UTF-8 FILE");
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

// What is wrong with the file is wrong with the data, not with a recipe.
template <class Read>
auto as_data(const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadRecipe) throw;
    throw Error(ExitCode::kBadData, error.where(), error.problem(), error.hint());
  }
}

// A path of a description, and where it stands.
struct DescribedPath {
  std::string text;
  Location at;
};

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

class Description {
 public:
  explicit Description(const fs::path& file) : folder_(file.parent_path()) {
    root_ = as_data([&] { return parse_yaml(text_of_file(file), file.string()); });
    if (root_.kind != YamlNode::Kind::kMap)
      throw Error(ExitCode::kBadData, file.string(), "is no description of a data set",
                  "it has keys train, val and names, as detectors' data.yaml");
    const YamlEntry* const path = root_.find("path");
    if (path != nullptr && path->value.kind == YamlNode::Kind::kScalar)
      base_ = with_slashes(path->value.scalar);
  }

  std::vector<DescribedPath> paths_of(YoloSplit split) const {
    const YamlEntry* const entry = find(split);
    if (entry == nullptr || entry->value.kind == YamlNode::Kind::kNull) {
      const Location& at = entry == nullptr ? root_.location : entry->key_location;
      throw Error(ExitCode::kBadData, at.text(), cat("names no images for ", to_string(split)),
                  "give it the key, or name images and labels in the recipe");
    }
    std::vector<DescribedPath> paths;
    const YamlNode& value = entry->value;
    if (value.kind == YamlNode::Kind::kSequence)
      for (const YamlNode& item : value.items) paths.push_back(path_of(item));
    else
      paths.push_back(path_of(value));
    if (!paths.empty()) return paths;
    throw Error(ExitCode::kBadData, value.location.text(), "is an empty list", "name a folder of images");
  }

  // Every place that the path may mean, the likeliest first.
  std::vector<fs::path> meanings(const std::string& written) const {
    const std::string text = with_slashes(written);
    std::string inner = text;  // what some tools write lies one folder higher than they put it
    while (inner.starts_with("../")) inner.erase(0, 3);
    std::vector<fs::path> all;
    if (!base_.empty()) all.push_back(folder_ / base_ / text);
    all.push_back(folder_ / text);
    if (!base_.empty()) all.push_back(fs::path(base_) / text);
    all.push_back(folder_ / inner);
    return all;
  }

  std::optional<fs::path> find(const std::string& text) const {
    for (const fs::path& place : meanings(text))
      if (is_there(place)) return place.lexically_normal();
    return std::nullopt;
  }

  fs::path place_of(const DescribedPath& path) const {
    if (std::optional<fs::path> place = find(path.text)) return *place;
    std::vector<std::string> tried;
    for (const fs::path& place : meanings(path.text)) {
      const std::string name = place.lexically_normal().string();
      if (std::ranges::find(tried, name) == tried.end()) tried.push_back(name);
    }
    throw Error(ExitCode::kMissingFile, path.at.text(),
                cat("names ", quote(path.text), ", and there is no ", join_choices(tried)),
                "set its key path to the folder of the data set");
  }

 private:
  const YamlEntry* find(YoloSplit split) const {
    if (const YamlEntry* const entry = root_.find(to_string(split)); entry != nullptr) return entry;
    if (split != YoloSplit::kValidation) return nullptr;
    const YamlEntry* const valid = root_.find("valid");
    return valid != nullptr ? valid : root_.find("validation");
  }

  static DescribedPath path_of(const YamlNode& node) {
    if (node.kind == YamlNode::Kind::kScalar && !node.scalar.empty()) return {node.scalar, node.location};
    throw Error(ExitCode::kBadData, node.location.text(), "is no path",
                "name a folder of images, or a list file of them");
  }

  YamlNode root_;
  fs::path folder_;
  std::string base_;  // key path
};

// The images that a list file names, one on each line: below the list's own folder, or as a description's
// paths are.
std::vector<std::string> listed_images(const fs::path& list, const Description& description) {
  std::vector<std::string> images;
  int64_t line = 0;
  const std::string lines = text_of_file(list);
  refuse_marked_encoding(list, lines);
  for (const std::string_view text : split(lines, '\n')) {
    ++line;
    const std::string name(trim(text));
    if (name.empty()) continue;
    if (const fs::path own = list.parent_path() / with_slashes(name); is_there(own)) {
      images.push_back(fs::absolute(own).lexically_normal().string());
    } else if (const std::optional<fs::path> other = description.find(name)) {
      images.push_back(fs::absolute(*other).lexically_normal().string());
    } else {
      throw Error(ExitCode::kMissingFile, cat(list.string(), ":", line),
                  cat("names ", quote(name), ", and there is no ",
                      (list.parent_path() / name).lexically_normal().string()),
                  "write paths below the folder that the list lies in");
    }
  }
  if (!images.empty()) return images;
  throw Error(ExitCode::kBadData, list.string(), "names no image", "write the path of one image a line");
}

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

}  // namespace

FoundImages find_described_images(const fs::path& file, YoloSplit split) {
  const Description description(file);
  const std::vector<DescribedPath> paths = description.paths_of(split);
  const std::string where = cat(file.string(), " (", to_string(split), ")");
  if (paths.size() == 1 && is_folder(description.place_of(paths[0]))) {
    FoundImages found = find_images(description.place_of(paths[0]));
    found.where = where;
    found.told = cat(found.folder.string(), " · ", found.told);
    return found;
  }
  FoundImages all{.where = where, .folder = "/"};
  for (const DescribedPath& path : paths) {
    const fs::path place = description.place_of(path);
    if (is_folder(place)) {
      const FoundImages found = find_images(fs::absolute(place).lexically_normal());
      for (const std::string& name : found.names) all.names.push_back((found.folder / name).string());
    } else {
      all.some = true;
      for (std::string& name : listed_images(place, description)) all.names.push_back(std::move(name));
    }
  }
  return all;
}

std::vector<fs::path> described_places(const fs::path& file) {
  std::set<fs::path> places;
  for (const auto& [split, name] : enum_names(YoloSplit{})) {
    try {
      const Description description(file);
      for (const DescribedPath& path : description.paths_of(split)) {
        const fs::path place = description.place_of(path);
        places.insert(place);
        if (is_folder(place)) {
          places.insert(label_folder(place));
          continue;
        }
        for (const std::string& image : listed_images(place, description)) {
          places.insert(fs::path(image).parent_path());
          places.insert(label_folder(fs::path(image).parent_path()));
        }
      }
    } catch (const Error&) {
      // A part that is not described, or cannot be read, is told of by the data set that is made of it.
    }
  }
  return {places.begin(), places.end()};
}

std::vector<std::string> read_class_names(const fs::path& path) {
  const std::string text = text_of_file(path);
  const bool yaml = is_yaml(path, text);
  if (!yaml) refuse_marked_encoding(path, text);
  // The parser of YAML knows the encodings that are marked; comments of a file may be in any.
  std::vector<std::string> names =
      yaml ? as_data([&] { return names_of_root(parse_yaml(text, path.string())); }) : names_of_lines(text);
  refuse_other_letters(path, text, names);
  if (names.empty())
    throw Error(ExitCode::kBadData, path.string(), "names no class", "write one name a line");
  return names;
}

}  // namespace autotrain
