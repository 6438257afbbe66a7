#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace autotrain {

enum class CgroupVersion { kOne, kTwo };

/// A control group that this process belongs to, itself or through a group inside it.
struct Cgroup {
  std::string name;              ///< "/job/step", below what is mounted
  std::filesystem::path folder;  ///< with the controller's files
};

/// The cgroup of this process for a controller such as "memory", and every ancestor that is visible here, the
/// innermost first. Empty where that version is not mounted.
/// @param root where /proc and /sys are looked for; tests give a folder.
std::vector<Cgroup> own_cgroups(const std::string& controller, CgroupVersion version,
                                const std::filesystem::path& root);

}  // namespace autotrain
