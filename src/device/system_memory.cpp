#include "device/system_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "base/text.h"
#include "base/units.h"
#include "device/cgroups.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

// Kernel files say "no limit" with the word "max" or with a number near 2⁶³; larger numbers than this mean
// it.
constexpr int64_t kNoLimit = int64_t{1} << 60;

std::optional<int64_t> read_number(const fs::path& path) {
  WithoutLocale<std::ifstream> in(path);
  std::string word;
  int64_t value = 0;
  if (!(in >> word) || !parse_integer(word, value)) return std::nullopt;
  return value;
}

struct CgroupFiles {
  const char* limit;
  const char* throttled;  // a limit beyond which the kernel stops processes for so long that they hang
  const char* usage;
  const char* reclaimable;  // a row of memory.stat: file pages the kernel drops under pressure
};

constexpr CgroupFiles kVersion1 = {"memory.limit_in_bytes", nullptr, "memory.usage_in_bytes",
                                   "total_inactive_file"};
constexpr CgroupFiles kVersion2 = {"memory.max", "memory.high", "memory.current", "inactive_file"};

// Nothing: there is none.
std::optional<int64_t> limit_of(const fs::path& folder, const CgroupFiles& files) {
  std::optional<int64_t> least;
  for (const char* const name : {files.limit, files.throttled}) {
    const auto limit = name == nullptr ? std::nullopt : read_number(folder / name);
    if (limit && *limit < least.value_or(kNoLimit)) least = limit;
  }
  return least;
}

void add_cgroup(std::vector<MemoryBound>& bounds, const Cgroup& group, const CgroupFiles& files) {
  const auto limit = limit_of(group.folder, files), usage = read_number(group.folder / files.usage);
  if (!limit || !usage) return;
  const int64_t reclaimable = read_kernel_table(group.folder / "memory.stat")[files.reclaimable];
  bounds.push_back({"cgroup " + group.name, *limit, std::max<int64_t>(0, *usage - reclaimable)});
}

void add_cgroups(std::vector<MemoryBound>& bounds, CgroupVersion version, const fs::path& root) {
  const CgroupFiles& files = version == CgroupVersion::kTwo ? kVersion2 : kVersion1;
  for (const Cgroup& group : own_cgroups("memory", version, root)) add_cgroup(bounds, group, files);
}

int64_t get_limit(decltype(RLIMIT_AS) which) {
  rlimit limit{};
  if (::getrlimit(which, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return -1;
  return static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, static_cast<rlim_t>(kNoLimit)));
}

}  // namespace

std::map<std::string, int64_t> read_kernel_table(const fs::path& path) {
  std::map<std::string, int64_t> table;
  WithoutLocale<std::ifstream> in(path);
  for (std::string line; std::getline(in, line);) {
    WithoutLocale<std::istringstream> words(line);
    std::string key;
    int64_t value = 0;
    if (!(words >> key >> value)) continue;
    if (key.back() == ':') key.pop_back();
    table[key] = value;
  }
  return table;
}

std::string kernel_line(const fs::path& path) {
  WithoutLocale<std::ifstream> in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

ResourceLimits ResourceLimits::of_this_process() {
  return {.address_space = get_limit(RLIMIT_AS), .data = get_limit(RLIMIT_DATA)};
}

std::vector<MemoryBound> memory_bounds(const ResourceLimits& limits, const fs::path& root) {
  std::vector<MemoryBound> bounds;
  auto status = read_kernel_table(root / "proc/self/status");  // in KiB
  auto machine = read_kernel_table(root / "proc/meminfo");     // in KiB
  if (machine.contains("MemAvailable")) {
    const int64_t total = machine["MemTotal"] * kKiB;
    bounds.push_back({"available memory", total, total - machine["MemAvailable"] * kKiB});
  }
  if (limits.address_space >= 0) {
    bounds.push_back({kAddressSpaceBound, limits.address_space, status["VmSize"] * kKiB});
  }
  if (limits.data >= 0) {
    bounds.push_back({kDataBound, limits.data, status["VmData"] * kKiB});
  }
  add_cgroups(bounds, CgroupVersion::kOne, root);
  add_cgroups(bounds, CgroupVersion::kTwo, root);
  return bounds;
}

MemoryBound tightest(const std::vector<MemoryBound>& bounds) {
  const auto least =
      std::min_element(bounds.begin(), bounds.end(), [](const MemoryBound& a, const MemoryBound& b) {
        return a.available_bytes() - reserve_below(a) < b.available_bytes() - reserve_below(b);
      });
  return least == bounds.end() ? MemoryBound{"unknown", kGiB, 0} : *least;
}

bool refuses(const MemoryBound& bound) {
  return bound.name == kDataBound || bound.name == kAddressSpaceBound;
}

int64_t reserve_below(const MemoryBound& bound) {
  // A limit that refuses counts this process alone. The others also count what other processes take.
  return refuses(bound) ? std::clamp(bound.available_bytes() / 20, 32 * kMiB, kGiB)
                        : std::clamp(bound.limit_bytes / 20, 64 * kMiB, kGiB);
}

int64_t memory_of_other_processes_bytes(const fs::path& root) {
  auto machine = read_kernel_table(root / "proc/meminfo");
  auto status = read_kernel_table(root / "proc/self/status");
  return std::max<int64_t>(0, machine["MemTotal"] - machine["MemAvailable"] - status["VmRSS"]) * kKiB;
}

ProcessMemory ProcessMemory::now() {
  // In pages: size resident shared text lib data. Shared counts file and shmem pages, so resident less
  // shared is RssAnon, at a tenth of the cost of reading /proc/self/status.
  WithoutLocale<std::ifstream> in("/proc/self/statm");
  int64_t size = 0, resident = 0, shared = 0, text = 0, library = 0, data = 0;
  in >> size >> resident >> shared >> text >> library >> data;
  const int64_t page = ::sysconf(_SC_PAGESIZE);
  return {(resident - shared) * page, data * page, size * page};
}

}  // namespace autotrain
