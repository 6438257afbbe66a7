#include "checkpoint/update_folders.h"

#include <algorithm>
#include <string_view>
#include <system_error>

#include "autotrain/error.h"
#include "base/descriptors.h"
#include "base/text.h"

namespace autotrain {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kBegin = "update-";

// That there is no such folder, and not that nobody knows what it holds.
bool is_absence(const std::error_code& error) {
  return error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
}

}  // namespace

std::string name_of_update(int64_t update) {
  return cat(kBegin, update);
}

std::vector<int64_t> updates_in(const fs::path& checkpoints) {
  std::vector<int64_t> found;
  std::error_code error, ignored;
  for (fs::directory_iterator entry(checkpoints, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    int64_t update = 0;
    if (!name.starts_with(kBegin) || !parse_integer(name.substr(kBegin.size()), update)) continue;
    if (entry->is_directory(ignored)) found.push_back(update);
  }
  if (error && !is_absence(error)) {
    refuse_limit_of_open_files(checkpoints, error.value());
    throw Error(ExitCode::kInputOutput, checkpoints.string(), cat("cannot be read: ", error.message()),
                "check who may read it, and that its disk is there");
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace autotrain
