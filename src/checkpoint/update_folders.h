#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace autotrain {

/// The name of a checkpoint's folder among a run's checkpoints: "update-42".
std::string name_of_update(int64_t update);

/// The updates that have a folder there, ascending; whether they are whole is not checked. None where there
/// is no such folder.
/// @throws Error(kInputOutput) when it cannot be told what lies there.
std::vector<int64_t> updates_in(const std::filesystem::path& checkpoints);

}  // namespace autotrain
