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

namespace autotrain {
namespace fs = std::filesystem;

namespace {

// Kernel files say "no limit" with the word "max" or with a number near 2⁶³; larger numbers than this mean
// it.
constexpr int64_t kNoLimit = int64_t{1} << 60;

std::optional<int64_t> read_number(const fs::path& path) {
  std::ifstream in(path);
  std::string word;
  int64_t value = 0;
  if (!(in >> word) || !parse_integer(word, value)) return std::nullopt;
  return value;
}

struct CgroupFiles {
  const char* limit;
  const char* usage;
  const char* reclaimable;  // a row of memory.stat: file pages the kernel drops under pressure
};

constexpr CgroupFiles kVersion1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
constexpr CgroupFiles kVersion2 = {"memory.max", "memory.current", "inactive_file"};

void add_cgroup(std::vector<MemoryBound>& bounds, const fs::path& folder, const std::string& name,
                const CgroupFiles& files) {
  const auto limit = read_number(folder / files.limit);
  const auto usage = read_number(folder / files.usage);
  if (!limit || !usage || *limit >= kNoLimit) return;
  const int64_t reclaimable = read_kernel_table(folder / "memory.stat")[files.reclaimable];
  bounds.push_back({"cgroup " + name, *limit, std::max<int64_t>(0, *usage - reclaimable)});
}

// A controller's mount: where it is, and which cgroup is its top (not "/" inside a container).
struct CgroupMount {
  fs::path point;
  std::string top;
};

std::optional<CgroupMount> find_mount(const fs::path& root, bool version2) {
  std::ifstream in(root / "proc/self/mountinfo");
  for (std::string line; std::getline(in, line);) {
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const std::vector<std::string> head = split(line.substr(0, dash), ' ');
    const std::vector<std::string> tail = split(line.substr(dash + 3), ' ');
    if (head.size() < 5 || tail.size() < 3) continue;
    const std::vector<std::string> options = split(tail[2], ',');
    const bool memory = std::find(options.begin(), options.end(), "memory") != options.end();
    if (version2 ? tail[0] == "cgroup2" : tail[0] == "cgroup" && memory) {
      return CgroupMount{root / head[4].substr(1), head[3]};
    }
  }
  return std::nullopt;
}

// The cgroup of this process: "4:memory:/a/b" in version 1, "0::/a/b" in version 2.
std::optional<std::string> own_cgroup(const fs::path& root, bool version2) {
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::vector<std::string> words = split(controllers, ',');
    const bool memory = std::find(words.begin(), words.end(), "memory") != words.end();
    if (version2 ? controllers.empty() : memory) return line.substr(second + 1);
  }
  return std::nullopt;
}

void add_cgroups(std::vector<MemoryBound>& bounds, const fs::path& root, bool version2) {
  const auto mount = find_mount(root, version2);
  auto path = own_cgroup(root, version2);
  if (!mount || !path) return;
  const CgroupFiles& files = version2 ? kVersion2 : kVersion1;
  if (mount->top != "/" && path->starts_with(mount->top)) path->erase(0, mount->top.size());
  fs::path relative = fs::path(*path).relative_path();
  // A container may show a path that its own mount does not have; then only the top is known.
  std::error_code error;
  if (!fs::exists(mount->point / relative, error)) relative.clear();
  for (;; relative = relative.parent_path()) {
    add_cgroup(bounds, mount->point / relative, "/" + relative.string(), files);
    if (relative.empty()) return;
  }
}

int64_t get_limit(decltype(RLIMIT_AS) which) {
  rlimit limit{};
  if (::getrlimit(which, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return -1;
  return static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, static_cast<rlim_t>(kNoLimit)));
}

}  // namespace

std::map<std::string, int64_t> read_kernel_table(const fs::path& path) {
  std::map<std::string, int64_t> table;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string key;
    int64_t value = 0;
    if (!(words >> key >> value)) continue;
    if (key.back() == ':') key.pop_back();
    table[key] = value;
  }
  return table;
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
  add_cgroups(bounds, root, false);
  add_cgroups(bounds, root, true);
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
  std::ifstream in("/proc/self/statm");
  int64_t size = 0, resident = 0, shared = 0, text = 0, library = 0, data = 0;
  in >> size >> resident >> shared >> text >> library >> data;
  const int64_t page = ::sysconf(_SC_PAGESIZE);
  return {(resident - shared) * page, data * page, size * page};
}

}  // namespace autotrain
