#pragma once

#include <cstdint>
#include <filesystem>

namespace autotrain {

/// Where a run leaves another one, to go on with another recipe.
struct BranchPoint {
  std::filesystem::path run;  ///< folder of the run that was trained
  int64_t update = 0;         ///< of its checkpoint
  int64_t start = 0;          ///< samples of the stream that the checkpoint has consumed
  int64_t samples = 0;        ///< that the branch trains on

  int64_t end() const { return start + samples; }
};

/// Samples of the stream that a run's checkpoint has consumed. @throws Error(kBadData).
int64_t samples_at(const std::filesystem::path& run, int64_t update);

/// Makes a run folder whose only checkpoint is that of the branch point, to be resumed with `allow_change`
/// and `effective` samples per update. Weights, averages, the optimizer's state and the place in the stream
/// are those of the checkpoint. What counts updates counts them as if all of them had been of this size, so
/// that schedules are where they were in samples, and an optimizer's bias correction with it. Totals, figures
/// and noise begin anew.
/// @throws Error(kBadData) when the checkpoint is damaged, Error(kInputOutput).
void begin_branch(const BranchPoint& point, int64_t effective, const std::filesystem::path& folder);

}  // namespace autotrain
