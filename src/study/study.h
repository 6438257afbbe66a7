#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autotrain/error.h"

namespace autotrain {

/// One run of a study: work whose result is kept.
struct StudyRun {
  std::string name;     ///< of its files, so letters, digits, '_', '-' and '.'; unique in its study
  std::string variant;  ///< runs of one variant take about equally long, from which the rest is estimated;
                        ///< "": a short run, of which the estimate says nothing
  nlohmann::ordered_json definition;  ///< everything that decides what comes out

  /// Called in a process of its own. What it throws makes the run a failed one, except
  /// Error(kInterrupted): the run then is not finished and is started again with the next call.
  std::function<nlohmann::ordered_json()> work;

  std::string label = {};  ///< for people; "": the name

  /// Processes that do the work together, each of them calling it. What the first one returns is the result.
  int64_t ranks = 1;

  /// How long it takes against the other runs of its variant: of a run that is made in parts, this one's
  /// share.
  double size = 1;
};

/// How one run ended.
struct StudyResult {
  std::string name = {};
  nlohmann::ordered_json value = nullptr;  ///< what the work returned; null: it failed
  std::string failure = {};                ///< why
  int code = 0;                            ///< exit code, or minus the signal that killed it
  double seconds = 0;
  bool kept = false;  ///< it was finished before this call

  bool failed() const { return !failure.empty(); }
};

/// How far a study is.
struct StudyProgress {
  size_t done = 0;
  size_t total = 0;
  std::string running = {};  ///< the run under way; "": none
  std::optional<double> seconds_left =
      {};  ///< nothing as long as nothing was measured, or where more may follow
};

struct StudyOptions {
  std::string kind = "study";    ///< what the folder is of: "sweep", "comparison"; it holds nothing else
  std::filesystem::path folder;  ///< gets `study.json`, `results/<name>.json` and `logs/<name>.log`

  /// Whether further runs may be asked for when these have ended: then nobody knows how long all takes.
  bool more_may_follow = false;

  /// Asked of each run that is not finished, when its turn has come; false: it is left out.
  std::function<bool(const StudyRun&)> wanted = [](const StudyRun&) { return true; };

  /// Several times a second, from the calling thread.
  std::function<void(const StudyProgress&)> on_progress = [](const StudyProgress&) {};

  /// Of each run that was kept, before anything runs; then after each run.
  std::function<void(const StudyResult&)> on_result = [](const StudyResult&) {};
};

/// Runs what is not finished yet, in order, each run in a process of its own, and returns all results in
/// that order, without those of runs that were left out. A crash is a result like any other. What is finished
/// is kept, so the same call goes on where an earlier one was killed; what failed is run again, unless it did
/// not fit, diverged or has a recipe that cannot work: it would fail again.
///
/// This process starts copies of itself: Child says what it must not have done before.
/// @throws Error(kUsage) when the folder holds a run or a study of another kind, a result in it was made by
/// another definition, or another process is at work there; Error(kInterrupted) after a signal, which the run
/// under way got too; Error(kInputOutput).
std::vector<StudyResult> run_study(const std::vector<StudyRun>& runs, const StudyOptions& options);

/// The first difference of a definition that was kept from another one, in words: "model.width is 8 there and
/// 16 now"; "": there is none.
std::string difference_of(const nlohmann::ordered_json& kept, const nlohmann::ordered_json& definition);

/// Where the result of a run stands.
std::filesystem::path study_result_file(const std::filesystem::path& folder, const std::string& run);

/// What a program ends with of which nothing came but this: the code of a StudyResult that failed; of one
/// that was killed, kInternal.
ExitCode exit_code_of(int code);

/// {round, variant} in the order to run them: round after round, each one beginning with the next variant,
/// so that a machine that slows down does so for every variant.
std::vector<std::pair<size_t, size_t>> interleaved(size_t rounds, size_t variants);

}  // namespace autotrain
