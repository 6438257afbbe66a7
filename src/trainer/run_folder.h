#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "autotrain/recipe.h"
#include "autotrain/trainer.h"
#include "base/folder_lock.h"
#include "checkpoint/checkpoint.h"
#include "report/metrics_file.h"
#include "report/tensorboard_file.h"

namespace autotrain {

/// Makes `parent`/`name`-<n> with the first free n. Creating it is what claims it: of two runs that start
/// together each gets its own. @throws Error(kInputOutput).
std::filesystem::path claim_first_free(const std::filesystem::path& parent, const std::string& name);

/// The folder of one run: recipe, plan, metrics, checkpoints, summary.
class RunFolder {
 public:
  /// Chooses and makes the folder: `options.output`, or the first free runs/<name>-<n>.
  /// @throws Error(kUsage) when it holds a run and this is no resume, or another process is writing in it;
  /// Error(kInputOutput).
  RunFolder(const Recipe& recipe, const TrainerOptions& options);

  const std::filesystem::path& path() const { return path_; }
  CheckpointFolder& checkpoints() { return checkpoints_; }
  const CheckpointFolder& checkpoints() const { return checkpoints_; }

  /// Opens metrics.jsonl; what stands beyond `keep_bytes` is cut first.
  void open_metrics(std::optional<int64_t> keep_bytes);
  const MetricsFile& metrics() const { return *metrics_; }

  /// Opens event files for TensorBoard too; what earlier ones say of updates beyond `update` is void. A file
  /// that cannot be written is a warning.
  void open_tensorboard(int64_t update);

  /// A row of the metrics, and of the event files if they were opened.
  void write(const UpdateRecord& record);
  void write(const EvaluationRecord& record);
  void write(const EventRecord& record);

  /// What was opened.
  void flush_metrics();

  /// Lets other runs write there again. Nothing may be written afterwards.
  void unlock() { lock_.reset(); }

  void save_recipe(const Recipe& recipe);
  void write_json(const std::string& name, const nlohmann::ordered_json& json);

 private:
  std::filesystem::path path_;
  std::unique_ptr<FolderLock> lock_;
  CheckpointFolder checkpoints_;
  std::unique_ptr<MetricsFile> metrics_;
  std::unique_ptr<TensorBoardFile> tensorboard_;  // null: not asked for, or it failed

  template <class Action>
  void with_tensorboard(Action action);
};

}  // namespace autotrain
