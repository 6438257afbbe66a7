#pragma once

#include <filesystem>
#include <string>

#include "autotrain/report.h"
#include "base/clock.h"
#include "base/files.h"

namespace autotrain {

/// An event file, as TensorBoard reads them: the numbers of updates under "train/…", those of evaluations
/// under the name of their split. The step is the update; values are 32-bit floats.
class TensorBoardFile {
 public:
  /// A new file in `folder`, which TensorBoard reads after those that are there. What they say of updates
  /// beyond `update` is void from now on. @throws Error(kInputOutput); so do all others.
  TensorBoardFile(const std::filesystem::path& folder, int64_t update);

  void write(const UpdateRecord& record);
  void write(const EvaluationRecord& record);

  /// What was written so far of updates beyond `update` is void: the run went back there.
  void restart(int64_t update);

  /// Hands what was written to the system. Happens by itself every half second.
  void flush();

 private:
  void append(const std::string& event);

  OutputFile file_;
  std::string buffer_;
  Stopwatch since_flush_;
};

}  // namespace autotrain
