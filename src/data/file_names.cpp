#include "data/file_names.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <set>

#include "autotrain/error.h"
#include "base/mapped_file.h"
#include "base/text.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

template <class Visit>
void for_each_entry(const fs::path& folder, Visit visit) {
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    const std::string name = entries->path().filename().string();
    if (!name.starts_with('.') && name != "__MACOSX") visit(*entries);  // a Mac's zip files have the latter
  }
  if (error) {
    throw Error(ExitCode::kMissingFile, folder.string(), error.message(),
                "give the path of a folder that you may read");
  }
}

constexpr std::array kEndings = {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".tif", ".tiff", ".bmp"};

bool is_image_name(const fs::path& path) {
  return std::ranges::find(kEndings, lower(path.extension().string())) != kEndings.end();
}

// Better now than after an hour of training.
int64_t readable_bytes(const fs::path& path) {
  struct stat status {};
  const bool readable = ::stat(path.c_str(), &status) == 0 && ::access(path.c_str(), R_OK) == 0;
  if (readable && S_ISREG(status.st_mode)) return status.st_size;
  throw Error(ExitCode::kMissingFile, path.string(), readable ? "is no file" : std::strerror(errno),
              "make it a file that you may read, or remove it");
}

// Calls `visit` with each character of a text in UTF-8.
template <class Visit>
void for_each_character(std::string_view text, Visit visit) {
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    while (end < text.size() && (static_cast<uint8_t>(text[end]) & 0xc0) == 0x80) ++end;
    visit(text.substr(at, end - at));
    at = end;
  }
}

// Whether it belongs to the character before it: U+0300 to U+036F, a later part of a syllable of Hangul, a
// sound mark of kana.
bool is_mark(std::string_view character) {
  const auto within = [character](std::string_view first, std::string_view last) {
    return character.size() == first.size() && character >= first && character <= last;
  };
  return within("\xcc\x80", "\xcd\xaf") || within("\xe1\x85\xa0", "\xe1\x87\xbf") ||
         within("\xe3\x82\x99", "\xe3\x82\x9a");
}

}  // namespace

bool has_marks_apart(std::string_view name) {
  bool has = false;
  for_each_character(name, [&](std::string_view character) { has = has || is_mark(character); });
  return has;
}

std::string outline_of(std::string_view name) {
  std::string outline;
  for_each_character(name, [&](std::string_view character) {
    if (is_mark(character) && !outline.empty())
      outline.back() = '?';
    else
      outline += character.size() == 1 ? character : "?";
  });
  return outline;
}

std::vector<std::pair<std::string, std::string>> alike_but_for_marks(const std::vector<std::string>& names) {
  std::map<std::string, std::string> by_outline;
  for (const std::string& name : names)
    if (!has_marks_apart(name)) by_outline.emplace(outline_of(name), name);
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const std::string& name : names) {
    const auto found = has_marks_apart(name) ? by_outline.find(outline_of(name)) : by_outline.end();
    if (found != by_outline.end()) pairs.emplace_back(found->second, name);
  }
  return pairs;
}

bool are_same(const fs::path& one, const fs::path& other) {
  std::error_code none;
  return one == other || fs::equivalent(one, other, none);
}

bool have_same_bytes(const fs::path& one, const fs::path& other) {
  std::error_code none;
  if (are_same(one, other)) return true;
  const uintmax_t bytes = fs::file_size(one, none);
  if (none || bytes != fs::file_size(other, none) || none) return false;
  return std::ranges::equal(MappedFile(one).bytes(), MappedFile(other).bytes());
}

std::string with_slashes(std::string path) {
  std::ranges::replace(path, '\\', '/');
  return path;
}

std::string image_endings() {
  return join_choices({kEndings.begin(), kEndings.end()});
}

std::string words_of_endings(const Endings& endings) {
  std::vector<std::string> words;
  for (const auto& [ending, count] : endings)
    words.push_back(cat(count, " ", ending.empty() ? "without an ending" : ending));
  return join(words, ", ");
}

Listing list_images(const fs::path& folder) {
  Listing listing;
  for_each_entry(folder, [&](const fs::directory_entry& entry) {
    std::error_code ignored;
    const bool folder_itself = entry.is_directory(ignored);
    if (!is_image_name(entry.path()) || folder_itself) {
      ++listing.others;
      if (folder_itself)
        listing.folders.push_back(entry.path().filename().string());
      else
        ++listing.left_out[lower(entry.path().extension().string())];
      return;
    }
    listing.image_bytes += readable_bytes(entry.path());
    listing.images.push_back(entry.path().filename().string());
  });
  std::sort(listing.images.begin(), listing.images.end());
  std::sort(listing.folders.begin(), listing.folders.end());
  return listing;
}

Listing list_images_below(const fs::path& folder) {
  Listing all;
  std::vector<std::string> waiting = {""};
  std::set<fs::path> seen;
  while (!waiting.empty()) {
    const std::string below = std::move(waiting.back());
    waiting.pop_back();
    std::error_code unknown;
    if (!seen.insert(fs::canonical(folder / below, unknown)).second && !unknown) continue;
    const Listing one = list_images(folder / below);
    for (const std::string& image : one.images) all.images.push_back(below + image);
    for (const std::string& inner : one.folders) waiting.push_back(cat(below, inner, "/"));
    for (const auto& [ending, count] : one.left_out) all.left_out[ending] += count;
    all.image_bytes += one.image_bytes;
    all.others += one.others - std::ssize(one.folders);
    if (!below.empty()) all.folders.push_back(below);
  }
  std::ranges::sort(all.images);
  std::ranges::sort(all.folders);
  return all;
}

std::vector<std::string> list_folders(const fs::path& folder) {
  std::vector<std::string> names;
  for_each_entry(folder, [&](const fs::directory_entry& entry) {
    std::error_code ignored;
    if (entry.is_directory(ignored)) names.push_back(entry.path().filename().string());
  });
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace autotrain
