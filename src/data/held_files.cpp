#include "data/held_files.h"

#include <filesystem>

#include "autotrain/error.h"
#include "data/file_sequence.h"

namespace autotrain {

void HeldFiles::hold(int64_t count, const PathOf& path, const PreloadWork& work) {
  contents_.resize(static_cast<size_t>(count));
  visit_all(count, work, [&](int64_t i) {
    try {
      const std::string name = path(i);
      const std::span<const uint8_t> bytes = FileSequence({{name}}).next(name);
      contents_[static_cast<size_t>(i)].assign(bytes.begin(), bytes.end());
    } catch (const Error&) {
      // Whoever asks for this sample reads the file again and is told.
    }
  });
}

int64_t bytes_of_files(int64_t count, const HeldFiles::PathOf& path) {
  int64_t bytes = 0;
  for (int64_t i = 0; i < count; ++i) {
    std::error_code error;
    const auto size = std::filesystem::file_size(path(i), error);
    if (!error) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

}  // namespace autotrain
