#include "device/cores.h"

#include <sched.h>

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "base/text.h"
#include "device/cgroups.h"
#include "device/system_memory.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

// Processor time that a cgroup may use in a second, in seconds; nothing: no quota.
std::optional<double> quota_of(const Cgroup& group, CgroupVersion version) {
  std::string quota, period;
  if (version == CgroupVersion::kTwo) {
    const std::vector<std::string> words = split(kernel_line(group.folder / "cpu.max"), ' ');
    if (words.size() == 2) quota = words[0], period = words[1];
  } else {
    quota = kernel_line(group.folder / "cpu.cfs_quota_us");
    period = kernel_line(group.folder / "cpu.cfs_period_us");
  }
  int64_t allowed = 0, every = 0;  // "max" and -1 are no quota
  if (!parse_integer(quota, allowed) || !parse_integer(period, every)) return std::nullopt;
  if (allowed <= 0 || every <= 0) return std::nullopt;
  return static_cast<double>(allowed) / static_cast<double>(every);
}

// The kernel refuses a set that is smaller than its own.
std::vector<size_t> allowed_processors() {
  constexpr size_t kMostSets = 64;
  std::vector<size_t> processors;
  for (size_t sets = 1; sets <= kMostSets && processors.empty(); sets *= 2) {
    std::vector<cpu_set_t> allowed(sets);
    const size_t bytes = sets * sizeof(cpu_set_t);
    if (::sched_getaffinity(0, bytes, allowed.data()) != 0) continue;
    for (size_t cpu = 0; cpu < sets * CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, allowed.data())) processors.push_back(cpu);
    }
  }
  return processors;
}

// Hyper-threads of one core list the same siblings.
int64_t physical_cores(const std::vector<size_t>& processors, const fs::path& root) {
  std::set<std::string> cores;
  for (const size_t cpu : processors) {
    const std::string siblings =
        kernel_line(root / "sys/devices/system/cpu" / cat("cpu", cpu) / "topology/thread_siblings_list");
    cores.insert(siblings.empty() ? cat(cpu) : siblings);
  }
  return std::max<int64_t>(1, std::ssize(cores));
}

}  // namespace

UsableCores usable_cores(const fs::path& root) {
  const std::vector<size_t> processors = allowed_processors();
  UsableCores usable{.count = physical_cores(processors, root),
                     .processors = std::max<int64_t>(1, std::ssize(processors))};
  usable.bound = cat("the physical cores of the ", usable.processors, " processors it may run on");
  for (const CgroupVersion version : {CgroupVersion::kOne, CgroupVersion::kTwo}) {
    for (const Cgroup& group : own_cgroups("cpu", version, root)) {
      const auto quota = quota_of(group, version);
      if (!quota || *quota >= static_cast<double>(usable.count)) continue;
      usable.count = std::max<int64_t>(1, static_cast<int64_t>(*quota));
      usable.bound = cat("the quota of cgroup ", group.name, ", ", brief(*quota), " CPUs");
    }
  }
  return usable;
}

}  // namespace autotrain
