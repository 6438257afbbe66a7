#pragma once

#include <filesystem>
#include <string>

namespace CLI {
class App;
}

namespace autotrain {

/// --run, --checkpoint
struct RunCheckpointOptions {
  std::filesystem::path run;
  std::string checkpoint = "newest";  ///< or "best", or an update

  void declare(CLI::App& app);

  /// @throws Error(kMissingFile) when the folder is no run's.
  void check_run() const;

  /// The update of the checkpoint that is asked for. The best one is what the run's summary says.
  /// @throws Error(kUsage) for what names none, Error(kMissingFile) when the run has it not.
  int64_t update() const;
};

}  // namespace autotrain
