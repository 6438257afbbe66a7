#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "autotrain/sweep_result.h"
#include "study/study.h"

namespace autotrain {

/// All rounds of a point together.
PointMemory summarise_memory(const std::vector<StudyResult>& rounds);

/// What the machine has read from its swap and written to it since it was started, in bytes.
struct MachineSwapping {
  int64_t in = 0, out = 0;
};

/// Nothing where the system does not say. @param root where /proc is looked for; tests give a folder.
std::optional<MachineSwapping> machine_swapping(const std::filesystem::path& root = "/");

}  // namespace autotrain
