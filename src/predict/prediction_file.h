#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/file_lock.h"
#include "base/files.h"

namespace autotrain {

/// How a file of predictions is begun where one may be already.
enum class PredictionStart {
  kNew,        ///< nothing may be there
  kResume,     ///< go on with what was stopped; nothing there: begin
  kOverwrite,  ///< begin, whatever is there
};

/// How far a file of predictions is.
struct PredictionState {
  /// What the rows depend on, by name: whoever has others cannot go on.
  nlohmann::ordered_json identity = nlohmann::ordered_json::object();

  int64_t first_batch = 0;  ///< samples of the first forward pass
  int64_t batch = 0;        ///< and of those from here on: memory that ran out made them fewer
  int64_t samples = 0;      ///< whose rows are in the file
  int64_t bytes = 0;        ///< that the file has with them
};

/// Makes this process the only one that predicts into `path`, through the file `path`.partial.lock.
/// @throws Error(kUsage) with the process that does already, Error(kInputOutput).
std::unique_ptr<FileLock> lock_prediction(const std::filesystem::path& path);

/// Whether there is anything to do: false when `start` resumes and `path` is whole already.
/// @throws Error(kUsage) when something is there that `start` does not allow.
bool check_start(const std::filesystem::path& path, PredictionStart start);

/// What a prediction that was stopped left beside `path`; nothing where there is none.
/// @throws Error(kBadData) when it cannot be read.
std::optional<PredictionState> stopped_prediction(const std::filesystem::path& path);

/// @throws Error(kUsage) naming the first thing that is not what the file was begun with.
void check_same_prediction(const std::filesystem::path& path, const PredictionState& kept,
                           const nlohmann::ordered_json& identity);

/// A file of predictions in the making: `path`.partial, and beside it `path`.partial.json, which says how
/// much of it is safe on the disk. A file under the name `path` is always whole.
class PredictionFile {
 public:
  /// Goes on after `state.bytes`, what stands beyond them is cut; with no samples done it begins anew.
  /// @throws Error(kBadData) when the file has fewer bytes, Error(kInputOutput); so do all others.
  PredictionFile(std::filesystem::path path, PredictionState state);

  void write(std::string_view bytes);

  /// What was written is the rows of so many samples: safe on the disk from now on.
  void mark(int64_t samples, int64_t batch);

  /// Puts the whole file under its name. Nothing may be called afterwards.
  void finish();

  const PredictionState& state() const { return state_; }

 private:
  std::filesystem::path path_;
  PredictionState state_;
  std::optional<OutputFile> file_;
};

}  // namespace autotrain
