#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>

#include "autotrain/error.h"
#include "autotrain/trainer.h"
#include "base/without_locale.h"
#include "cli/common_options.h"

namespace CLI {
class App;
}

namespace autotrain {

inline constexpr int64_t kMostLocalRanks = 1024;

/// --ranks
struct RanksOption {
  int64_t ranks = 1;

  void declare(CLI::App& app);

  /// Whether this process is to start the ranks, and is none itself.
  /// @throws Error(kUsage) when a launcher started another number of them.
  bool starts_them() const;
};

/// Starts the ranks on this machine: this program again, with the same command line. Signals are passed on to
/// them; the first one has the terminal.
/// @param config the recipe, which each of them reads; "": there is none.
/// @return what the first rank to fail ended with, which is named on standard error.
/// @throws Error(kUsage) for a recipe that can be read once only.
ExitCode run_local_ranks(int64_t ranks, const std::filesystem::path& config);

/// Follows a rank that is not the first one: its log goes to ranks/rank-<n>.log of the run folder, where this
/// host has that folder, and warnings to standard error.
class RankLog final : public RunObserver {
 public:
  RankLog(int64_t rank, const PrintOptions& options);
  ~RankLog() override;

  void on_folder(const std::filesystem::path& folder) override;

 private:
  void write(const log::Record& record);

  int64_t rank_;
  log::Level terminal_level_;
  std::mutex mutex_;  // of the file, which any thread writes to
  WithoutLocale<std::ofstream> file_;
};

}  // namespace autotrain
