#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "autotrain/recipe.h"
#include "autotrain/trainer.h"
#include "base/folder_lock.h"
#include "checkpoint/checkpoint.h"
#include "report/metrics_file.h"
#include "state/followers.h"

namespace autotrain {

/// Makes `parent`/`name`-<n> with the first free n. Creating it is what claims it: of two runs that start
/// together each gets its own. @throws Error(kInputOutput).
std::filesystem::path claim_first_free(const std::filesystem::path& parent, const std::string& name);

/// What the last session in the folder of a run is called; "": there was none, or this is no such folder.
std::string session_of(const std::filesystem::path& run);

/// The folder of one run: recipe, plan, metrics, checkpoints, summary. Follows the run with metrics.jsonl.
class RunFolder final : public FollowingFile {
 public:
  /// Chooses and makes the folder: `options.output`, or the first free runs/<name>-<n>.
  /// @throws Error(kUsage) when it holds a run and this is no resume, or another process is writing in it;
  /// Error(kInputOutput).
  RunFolder(const Recipe& recipe, const TrainerOptions& options);

  const std::filesystem::path& path() const { return path_; }
  CheckpointFolder& checkpoints() { return checkpoints_; }
  const CheckpointFolder& checkpoints() const { return checkpoints_; }

  /// Opens metrics.jsonl; what stands beyond `keep_bytes` is cut first. Where it ends before them, a warning
  /// says that rows are missing.
  void open_metrics(std::optional<int64_t> keep_bytes);
  const MetricsFile& metrics() const { return *metrics_; }

  void on_update(const UpdateRecord& record, int64_t) override { metrics_->write(record); }
  void on_evaluation(const EvaluationRecord& record) override { metrics_->write(record); }
  void on_event(const EventRecord& record) override { metrics_->write(record); }
  void flush() override;

  /// Begins a session: what is written on behalf of an earlier one is told from it by this.
  /// @return what it is called, which stands in the folder's file `.session`.
  std::string begin_session();

  /// To be called before anything is written by its path. @throws Error(kInputOutput) where that path leads
  /// to this session's folder no more.
  void check_in_place() const;

  /// Lets other runs write there again. Nothing may be written afterwards.
  void unlock() { lock_.reset(); }

  void save_recipe(const Recipe& recipe);
  void write_json(const std::string& name, const nlohmann::ordered_json& json);

 private:
  std::filesystem::path path_;
  std::string session_;  // empty: it has not begun
  std::unique_ptr<FolderLock> lock_;
  CheckpointFolder checkpoints_;
  std::unique_ptr<MetricsFile> metrics_;  // null: not opened yet
};

}  // namespace autotrain
