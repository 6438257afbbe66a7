#include "device/cache_levels.h"

#include "base/text.h"
#include "base/units.h"
#include "device/system_memory.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

// Processors in a list such as "0-1,8-9".
int64_t count_listed(const std::string& list) {
  int64_t count = 0;
  for (const std::string& part : split(list, ',')) {
    const std::vector<std::string> ends = split(part, '-');
    int64_t first = 0, last = 0;
    if (!parse_integer(ends.front(), first) || !parse_integer(ends.back(), last)) continue;
    count += last - first + 1;
  }
  return count > 0 ? count : 1;
}

}  // namespace

std::vector<CacheLevel> cache_levels(const fs::path& root) {
  std::vector<CacheLevel> levels;
  for (int i = 0;; ++i) {
    const fs::path folder = root / "sys/devices/system/cpu/cpu0/cache" / cat("index", i);
    const std::string level = kernel_line(folder / "level");
    if (level.empty()) return levels;
    const auto bytes = parse_bytes(kernel_line(folder / "size"));
    if (kernel_line(folder / "type") == "Instruction" || !bytes) continue;
    levels.push_back({"L" + level, *bytes, count_listed(kernel_line(folder / "shared_cpu_list"))});
  }
}

}  // namespace autotrain
