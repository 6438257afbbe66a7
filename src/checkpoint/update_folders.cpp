#include "checkpoint/update_folders.h"

#include <algorithm>
#include <string_view>

#include "base/descriptors.h"
#include "base/text.h"

namespace autotrain {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kBegin = "update-";

}  // namespace

std::string name_of_update(int64_t update) {
  return cat(kBegin, update);
}

std::vector<int64_t> updates_in(const fs::path& checkpoints) {
  std::vector<int64_t> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(checkpoints, error)) {
    const std::string name = entry.path().filename().string();
    int64_t update = 0;
    if (!name.starts_with(kBegin) || !parse_integer(name.substr(kBegin.size()), update)) continue;
    if (entry.is_directory(error)) found.push_back(update);
  }
  refuse_limit_of_open_files(checkpoints, error.value());
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace autotrain
