#pragma once

#include <stdexcept>
#include <string>

namespace autotrain {

/// What a process says when it ends. The numbers follow sysexits(3) where it has one.
enum class ExitCode : int {
  kDone = 0,
  kUsage = 64,           ///< the command line is wrong
  kBadData = 65,         ///< a data file is corrupt, truncated or not what it claims to be
  kMissingFile = 66,     ///< a recipe or data file does not exist or cannot be read
  kInternal = 70,        ///< a bug of this program
  kDoesNotFit = 71,      ///< the run does not fit the memory budget
  kDeviceLost = 72,      ///< the device failed for this process; `--resume` goes on from the last checkpoint
  kInputOutput = 74,     ///< writing or reading failed: disk full, read-only, permission; or no more threads
  kInterrupted = 75,     ///< stopped by a signal; `--resume` continues
  kDiverged = 76,        ///< loss or gradients stayed non-finite
  kBrokenContract = 77,  ///< a task, data set or callback of the user's own does not keep what it promised
  kBadRecipe = 78,       ///< a recipe has an unknown key or a bad value
};

/// An error that the user must act on: where it is, what is wrong, what to try.
///
/// Thrown across rooms only for "this job is over". Expected outcomes (a size that does not fit,
/// a skipped update, no checkpoint yet) are return values.
class Error : public std::runtime_error {
 public:
  /// @param where a place the user knows: `file:line:column: key`, a path, a phase. May be empty.
  /// @param what  the value and what was expected of it.
  /// @param hint  one concrete change that helps. May be empty; may hold several lines.
  Error(ExitCode code, std::string where, std::string what, std::string hint = "");

  ExitCode code() const noexcept { return code_; }
  const std::string& where() const noexcept { return where_; }
  const std::string& problem() const noexcept { return problem_; }
  const std::string& hint() const noexcept { return hint_; }

 private:
  ExitCode code_;
  std::string where_;
  std::string problem_;
  std::string hint_;
};

/// A promise of this program that did not hold: a bug of ours, never of the user's.
/// Throws `std::logic_error` with `message` unless `condition`.
void check_invariant(bool condition, const char* message);

}  // namespace autotrain
