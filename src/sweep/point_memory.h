#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "study/study.h"

namespace autotrain {

/// What a point did with memory beside its peak, all its rounds together. Nothing where a measurement does
/// not tell: one that an older version kept, or of a machine without such a file.
struct PointMemory {
  std::optional<double> allocated_bytes =
      {};                                     ///< the most that tensors held, in the round that reserved most
  std::optional<double> reserved_bytes = {};  ///< the most that the allocator held for them there

  /// What the whole machine read from its swap meanwhile, and wrote to it, whoever's it was.
  std::optional<double> swapped_in_bytes = {}, swapped_out_bytes = {};

  /// What the allocator held at most beyond what tensors did at most.
  std::optional<double> fragmentation_bytes() const;

  /// Whether the machine swapped.
  bool swapped() const { return swapped_in_bytes.value_or(0) + swapped_out_bytes.value_or(0) > 0; }
};

PointMemory summarise_memory(const std::vector<StudyResult>& rounds);

/// What the machine has read from its swap and written to it since it was started, in bytes.
struct MachineSwapping {
  int64_t in = 0, out = 0;
};

/// Nothing where the system does not say. @param root where /proc is looked for; tests give a folder.
std::optional<MachineSwapping> machine_swapping(const std::filesystem::path& root = "/");

}  // namespace autotrain
