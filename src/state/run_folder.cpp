#include "state/run_folder.h"

#include <random>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/files.h"
#include "base/full_disk.h"
#include "base/json.h"
#include "base/text.h"
#include "recipe/writer.h"
#include "state/catalog.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

constexpr const char* kSession = ".session";

bool holds_a_run(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / "recipe.yaml", error) || fs::exists(folder / "metrics.jsonl", error);
}

// What cannot be looked at is told by what makes the folder.
void refuse_a_second_run(const TrainerOptions& options) {
  std::error_code error;
  if (!options.output.empty() && fs::exists(options.output / "study.json", error)) {
    throw Error(ExitCode::kUsage, options.output.string(), "holds a sweep or a comparison",
                "give another --output");
  }
  if (options.resume || options.output.empty() || !holds_a_run(options.output)) return;
  throw Error(ExitCode::kUsage, options.output.string(), "holds a run already",
              "give another --output, or --resume to go on with it");
}

// "runs/a/" is "runs/a", whose last part is a name.
fs::path choose(const Recipe& recipe, const TrainerOptions& options) {
  refuse_a_second_run(options);
  if (options.output.empty()) return claim_first_free("runs", recipe.name);
  return options.output.has_filename() ? options.output : options.output.parent_path();
}

// Training needs none of the rows, and whatever is drawn of them has a gap.
void warn_of_missing_rows(const fs::path& file, int64_t bytes) {
  std::error_code error;
  const int64_t there = fs::exists(file, error) ? static_cast<int64_t>(fs::file_size(file, error)) : 0;
  if (error || there >= bytes) return;
  log::warn("trainer",
            cat(file.string(), " has ", there, " bytes, and had ", bytes,
                " when the checkpoint was written: rows before it are missing, in curves, reports and "
                "comparisons too; put the file back and resume again to have them"));
}

}  // namespace

fs::path claim_first_free(const fs::path& parent, const std::string& name) {
  make_folders(parent);
  for (int64_t n = 1;; ++n) {
    fs::path candidate = parent / cat(name, "-", n);
    std::error_code error;
    if (fs::create_directory(candidate, error)) return candidate;
    if (error && error != std::errc::file_exists) {
      errno = error.value();
      throw_io_error(candidate, "making the folder");
    }
  }
}

RunFolder::RunFolder(const Recipe& recipe, const TrainerOptions& options)
    : path_(choose(recipe, options)), checkpoints_(path_ / "checkpoints") {
  make_folders(path_ / "checkpoints");
  lock_ = std::make_unique<FolderLock>(path_);
  refuse_a_second_run(options);  // one that began and ended since it was chosen
}

std::string session_of(const fs::path& run) {
  std::error_code error;
  const fs::path file = run / kSession;
  return fs::exists(file, error) ? read_file(file) : "";
}

std::string RunFolder::begin_session() {
  std::random_device device;
  session_ = cat(device(), '-', device());
  waiting_for_room([&] { write_file_atomically(path_ / kSession, session_); });
  return session_;
}

void RunFolder::check_in_place() const {
  const std::string now = session_of(path_);
  // The hidden file alone may have been cleared away.
  if (session_.empty() || now == session_ || (now.empty() && holds_a_run(path_))) return;
  throw Error(ExitCode::kInputOutput, path_.string(),
              "is not the folder of this run any more: it was moved or removed while the run went on, or "
              "another run has taken it",
              "go on from the last checkpoint where the folder lies now: --output THERE --resume");
}

void RunFolder::open_metrics(std::optional<int64_t> keep_bytes) {
  const fs::path file = path_ / "metrics.jsonl";
  if (keep_bytes) warn_of_missing_rows(file, *keep_bytes);
  waiting_for_room([&] { metrics_ = std::make_unique<MetricsFile>(file, keep_bytes); });
}

void RunFolder::flush() {
  if (metrics_) metrics_->flush();
}

void RunFolder::save_recipe(const Recipe& recipe) {
  const std::string text = autotrain::write_recipe(recipe, catalog());
  waiting_for_room([&] { write_file_atomically(path_ / "recipe.yaml", text); });
}

void RunFolder::write_json(const std::string& name, const nlohmann::ordered_json& json) {
  check_in_place();
  waiting_for_room([&] { write_file_atomically(path_ / name, text_of_json(json)); });
}

}  // namespace autotrain
