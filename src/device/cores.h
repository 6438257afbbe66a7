#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace autotrain {

/// How many cores this process may keep busy, at least 1.
struct UsableCores {
  int64_t count = 1;
  int64_t processors = 1;  ///< that it may run on: its affinity
  std::string bound = {};  ///< what the count comes from: "the quota of cgroup /job, 2.5 CPUs"
};

/// The physical cores of the processors that the process may run on (its affinity), and no more than the
/// least CPU quota of its cgroups (v1 and v2, every ancestor), rounded down.
/// @param root where /proc and /sys are looked for; tests give a folder.
UsableCores usable_cores(const std::filesystem::path& root = "/");

}  // namespace autotrain
