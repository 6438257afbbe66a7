#include "data/fingerprint.h"

#include <algorithm>
#include <vector>

#include "autotrain/error.h"
#include "base/mapped_file.h"
#include "base/random.h"
#include "base/text.h"
#include "base/units.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

constexpr size_t kEnd = size_t{32} << 20;  // bytes that are read at either end of a long file

std::string words_of(int64_t bytes, uint64_t hash) {
  constexpr std::string_view kDigits16 = "0123456789abcdef";
  std::string text = cat(format_count(bytes), " bytes, ");
  for (int shift = 60; shift >= 0; shift -= 4) text += kDigits16[(hash >> shift) & 15];
  return text;
}

std::string of_file(const fs::path& path) {
  const auto bytes = static_cast<int64_t>(fs::file_size(path));
  if (bytes == 0) return words_of(0, fnv1a(""));
  const MappedFile file(path);
  const std::string_view all(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  const size_t head = std::min(all.size(), kEnd), tail = std::min(all.size() - head, kEnd);
  return words_of(bytes, fnv1a(all.substr(all.size() - tail), fnv1a(all.substr(0, head))));
}

std::string of_folder(const fs::path& folder) {
  std::vector<std::string> files;
  int64_t bytes = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const auto size = static_cast<int64_t>(entry.file_size());
    bytes += size;
    files.push_back(cat(entry.path().lexically_relative(folder).string(), "\n", size, "\n"));
  }
  std::ranges::sort(files);
  uint64_t hash = fnv1a("");
  for (const std::string& file : files) hash = fnv1a(file, hash);
  return cat(format_count(std::ssize(files)), " files, ", words_of(bytes, hash));
}

}  // namespace

std::string fingerprint_of(const fs::path& path) {
  try {
    return fs::is_directory(path) ? of_folder(path) : of_file(path);
  } catch (const fs::filesystem_error& error) {
    throw Error(ExitCode::kInputOutput, path.string(), error.code().message());
  }
}

std::string fingerprint_of_data(const Choice& choice) {
  std::vector<std::string> parts;
  const auto add = [&](const std::string& text) {
    std::error_code ignored;
    if (!text.empty() && fs::exists(text, ignored)) parts.push_back(cat(text, ": ", fingerprint_of(text)));
  };
  for (const auto& [key, value] : choice.parameters) {
    if (const auto* const text = std::get_if<std::string>(&value)) add(*text);
    if (const auto* const texts = std::get_if<std::vector<std::string>>(&value))
      std::ranges::for_each(*texts, add);
    if (const auto* const named = std::get_if<std::map<std::string, std::string>>(&value))
      for (const auto& [name, text] : *named) add(text);
  }
  return join(parts, "; ");
}

}  // namespace autotrain
