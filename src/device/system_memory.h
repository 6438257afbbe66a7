#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace autotrain {

/// A file of "Key: 123 kB" or "key 123" lines, such as /proc/meminfo, as numbers; units are dropped, and so
/// are lines of another form. Empty when there is no such file.
std::map<std::string, int64_t> read_kernel_table(const std::filesystem::path& path);

/// The first line of a file of the kernel; empty when there is none.
std::string kernel_line(const std::filesystem::path& path);

/// One thing that bounds the memory of this process.
struct MemoryBound {
  std::string name;  ///< as the user knows it: "RLIMIT_DATA (ulimit -d)", "cgroup /a/b"
  int64_t limit_bytes;
  int64_t used_bytes;  ///< what already counts against it
  int64_t available_bytes() const { return limit_bytes > used_bytes ? limit_bytes - used_bytes : 0; }
};

/// Resource limits in bytes as getrlimit(2) gives them; -1 is unlimited.
struct ResourceLimits {
  int64_t address_space = -1;
  int64_t data = -1;
  static ResourceLimits of_this_process();
};

constexpr const char* kAddressSpaceBound = "RLIMIT_AS (ulimit -v)";
constexpr const char* kDataBound = "RLIMIT_DATA (ulimit -d)";

/// Everything that bounds this process: cgroups (v1 and v2, every ancestor), resource limits,
/// available memory. `root` is where /proc and /sys are looked for; tests give a folder.
std::vector<MemoryBound> memory_bounds(const ResourceLimits& limits, const std::filesystem::path& root = "/");

/// The bound with the least available.
MemoryBound tightest(const std::vector<MemoryBound>& bounds);

/// Whether an allocation beyond the bound fails. Beyond other bounds the kernel kills the process.
bool refuses(const MemoryBound& bound);

/// What is kept free below a real limit for what nobody foresees, such as small allocations of libraries in
/// the middle of an update.
int64_t reserve_below(const MemoryBound& bound);

/// The machine's memory that is neither available nor resident in this process, in bytes.
int64_t memory_of_other_processes_bytes(const std::filesystem::path& root = "/");

/// What this process has now, in bytes, in the terms of the limits that count it.
struct ProcessMemory {
  int64_t anonymous_bytes = 0;  ///< resident and not of a file: what a cgroup and the machine count
  int64_t data_bytes = 0;       ///< writable private mappings, resident or not: RLIMIT_DATA
  int64_t address_bytes = 0;    ///< all mappings: RLIMIT_AS
  static ProcessMemory now();
};

}  // namespace autotrain
