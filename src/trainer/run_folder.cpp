#include "trainer/run_folder.h"

#include "autotrain/error.h"
#include "base/files.h"
#include "base/text.h"
#include "recipe/writer.h"
#include "trainer/catalog.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

bool holds_a_run(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / "recipe.yaml", error) || fs::exists(folder / "metrics.jsonl", error);
}

// Creating the folder is what claims it: of two runs that start together each gets its own.
fs::path claim_first_free(const std::string& name) {
  make_folders("runs");
  for (int64_t n = 1;; ++n) {
    const fs::path candidate = fs::path("runs") / cat(name, "-", n);
    std::error_code error;
    if (fs::create_directory(candidate, error)) return candidate;
    if (error && error != std::errc::file_exists) {
      errno = error.value();
      throw_io_error(candidate, "making the folder");
    }
  }
}

fs::path choose(const Recipe& recipe, const TrainerOptions& options) {
  if (options.output.empty()) return claim_first_free(recipe.name);
  if (holds_a_run(options.output) && !options.resume) {
    throw Error(ExitCode::kUsage, options.output.string(), "holds a run already",
                "give another --output, or --resume to go on with it");
  }
  return options.output;
}

}  // namespace

RunFolder::RunFolder(const Recipe& recipe, const TrainerOptions& options)
    : path_(choose(recipe, options)), checkpoints_(path_ / "checkpoints") {
  make_folders(path_ / "checkpoints");
  lock_ = std::make_unique<FolderLock>(path_);
}

void RunFolder::open_metrics(std::optional<int64_t> keep_bytes) {
  metrics_ = std::make_unique<MetricsFile>(path_ / "metrics.jsonl", keep_bytes);
}

void RunFolder::save_recipe(const Recipe& recipe) {
  write_file_atomically(path_ / "recipe.yaml", autotrain::write_recipe(recipe, catalog()));
}

void RunFolder::write_json(const std::string& name, const nlohmann::ordered_json& json) {
  write_file_atomically(path_ / name, json.dump(2) + "\n");
}

}  // namespace autotrain
