#pragma once

#include <filesystem>

#include "study/trained_run.h"

namespace autotrain {

/// Refuses a name for a new file under which something lies that the run is read with: its first weights,
/// whose shapes and zeros it may have to keep, all shards of them; what its model and its data name; its
/// checkpoints. To be called before anything is written.
/// @throws Error(kUsage) that says which of these it is.
void check_not_needed(const TrainedRun& run, const std::filesystem::path& target);

}  // namespace autotrain
