#include "data/fingerprint.h"

#include <algorithm>
#include <vector>

#include "autotrain/error.h"
#include "base/mapped_file.h"
#include "base/random.h"
#include "base/text.h"
#include "base/units.h"
#include "data/windows.h"
#include "data/yolo_description.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

constexpr size_t kEndBytes = size_t{32} << 20;    // bytes that are read at either end of a long file
constexpr int64_t kFewBytes = int64_t{64} << 20;  // of a folder, that are read

std::string words_of(int64_t bytes, uint64_t hash) {
  constexpr std::string_view kDigits16 = "0123456789abcdef";
  std::string text = cat(format_count(bytes), " bytes, ");
  for (int shift = 60; shift >= 0; shift -= 4) text += kDigits16[(hash >> shift) & 15];
  return text;
}

uint64_t hash_of_file(const fs::path& path, uint64_t hash) {
  if (fs::file_size(path) == 0) return hash;
  const MappedFile file(path);
  const std::string_view all(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  const size_t head = std::min(all.size(), kEndBytes), tail = std::min(all.size() - head, kEndBytes);
  return fnv1a(all.substr(all.size() - tail), fnv1a(all.substr(0, head), hash));
}

std::string of_file(const fs::path& path) {
  return words_of(static_cast<int64_t>(fs::file_size(path)), hash_of_file(path, fnv1a("")));
}

bool is_hidden(const fs::path& path) {
  return path.filename().string().starts_with(".");
}

// A file under the name by which it counts, with its size.
struct NamedFile {
  std::string name;
  int64_t bytes = 0;
  fs::path path;
};

// Names and sizes, and all bytes where they are few.
std::string of_files(const std::vector<NamedFile>& files) {
  int64_t bytes = 0;
  for (const NamedFile& file : files) bytes += file.bytes;
  uint64_t hash = fnv1a("");
  for (const NamedFile& file : files) {
    hash = fnv1a(cat(file.name, "\n", file.bytes, "\n"), hash);
    if (bytes <= kFewBytes) hash = hash_of_file(file.path, hash);
  }
  return cat(format_count(std::ssize(files)), " files, ", words_of(bytes, hash));
}

std::string of_folder(const fs::path& folder) {
  std::vector<NamedFile> files;
  for (fs::recursive_directory_iterator entry(folder), end; entry != end; ++entry) {
    if (is_hidden(entry->path())) {  // what a desktop or an editor leaves there
      entry.disable_recursion_pending();
      continue;
    }
    if (!entry->is_regular_file()) continue;
    files.push_back({entry->path().lexically_relative(folder).string(),
                     static_cast<int64_t>(entry->file_size()), entry->path()});
  }
  std::ranges::sort(files, {}, &NamedFile::name);
  return of_files(files);
}

// What a pattern matches, in its order; "" where that is nothing.
std::string of_pattern(const Choice& choice, const std::string& pattern) {
  std::vector<NamedFile> files;
  try {
    for (const fs::path& path : matching_files(choice.name, {pattern}))
      files.push_back({path.filename().string(), static_cast<int64_t>(fs::file_size(path)), path});
  } catch (const Error&) {
    return "";
  }
  return of_files(files);
}

std::string text_in(const Choice& choice, const char* key) {
  const auto found = choice.parameters.find(key);
  const auto* const text =
      found == choice.parameters.end() ? nullptr : std::get_if<std::string>(&found->second);
  return text == nullptr ? "" : *text;
}

// What parameters name by way of a file, or of a rule.
std::vector<fs::path> implied_by(const Choice& choice) {
  if (choice.name != "yolo") return {};
  if (const std::string file = text_in(choice, "file"); !file.empty()) return described_places(file);
  const std::string images = text_in(choice, "images");
  if (images.empty() || !text_in(choice, "labels").empty()) return {};
  return {label_folder(images)};
}

}  // namespace

std::string fingerprint_of(const fs::path& path) {
  try {
    return fs::is_directory(path) ? of_folder(path) : of_file(path);
  } catch (const fs::filesystem_error& error) {
    throw Error(ExitCode::kInputOutput, path.string(), error.code().message());
  }
}

bool tells_every_byte(const std::string& fingerprint) {
  const size_t end = fingerprint.find(" bytes, ");
  if (end == std::string::npos) return false;
  std::string number = fingerprint.substr(0, end);
  number.erase(0, number.rfind(' ') + 1);
  std::erase(number, ',');
  int64_t bytes = 0;
  return parse_integer(number, bytes) && bytes <= kFewBytes;
}

std::map<std::string, std::string> fingerprints_of_data(const Choice& choice) {
  std::map<std::string, std::string> files;
  const auto is_there = [](const std::string& path) {
    std::error_code ignored;
    return !path.empty() && fs::exists(path, ignored);
  };
  const auto add = [&](const std::string& key, const std::string& text) {
    const std::string file = key == "arrays" ? text.substr(text.find('=') + 1) : text;  // "image=x.npy"
    std::string found = is_there(file) ? fingerprint_of(file) : "";
    if (found.empty() && key == "files") found = of_pattern(choice, text);
    if (!found.empty()) files.emplace(text, std::move(found));
  };
  for (const auto& [key, value] : choice.parameters) {
    if (const auto* const text = std::get_if<std::string>(&value)) add(key, *text);
    if (const auto* const texts = std::get_if<std::vector<std::string>>(&value))
      for (const std::string& text : *texts) add(key, text);
    if (const auto* const named = std::get_if<std::map<std::string, std::string>>(&value))
      for (const auto& [name, text] : *named) add(key, text);
  }
  for (const fs::path& place : implied_by(choice)) add("", place.string());
  return files;
}

std::string fingerprint_of_data(const Choice& choice) {
  std::vector<std::string> parts;
  for (const auto& [path, fingerprint] : fingerprints_of_data(choice))
    parts.push_back(cat(path, ": ", fingerprint));
  return join(parts, "; ");
}

std::string file_read_by(const Choice& training) {
  if (training.name != "table") return "";
  const std::string like = text_in(training, "like");
  return like.empty() ? text_in(training, "file") : like;
}

}  // namespace autotrain
