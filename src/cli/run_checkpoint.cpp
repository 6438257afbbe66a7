#include "cli/run_checkpoint.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "autotrain/error.h"
#include "base/json.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "trainer/run_report.h"

namespace autotrain {
void RunCheckpointOptions::declare(CLI::App& app) {
  app.add_option("--run", run, "The folder of a run")->required()->type_name("DIR");
  app.add_option("--checkpoint", checkpoint, "newest, best, or the number of an update")
      ->capture_default_str()
      ->type_name("WHICH");
}

void RunCheckpointOptions::check_run() const {
  if (is_run_folder(run)) return;
  throw Error(ExitCode::kMissingFile, run.string(), "holds no run",
              "name the folder of a run: it has recipe.yaml, plan.json and metrics.jsonl");
}

int64_t RunCheckpointOptions::update() const {
  const CheckpointFolder checkpoints(run / "checkpoints");
  const std::vector<int64_t> updates = checkpoints.updates();
  if (checkpoint == "newest") {
    const auto newest = checkpoints.read_newest_state();
    if (newest) return newest->first;
    throw Error(ExitCode::kMissingFile, run.string(), "holds no checkpoint",
                "name the folder of a run that has one");
  }
  int64_t update = -1;
  if (checkpoint == "best") {
    update = count_in(part_in(read_json(run / "summary.json"), "best"), "update");
  } else if (!parse_integer(checkpoint, update)) {
    throw Error(ExitCode::kUsage, "--checkpoint", quote(checkpoint) + " is no checkpoint",
                "give newest, best or the number of an update");
  }
  if (std::ranges::find(updates, update) != updates.end()) return update;
  std::vector<std::string> names;
  for (const int64_t each : updates) names.push_back(std::to_string(each));
  throw Error(ExitCode::kMissingFile, run.string(), cat("has no checkpoint of update ", update),
              names.empty() ? "it has none" : "it has those of updates " + join(names, ", "));
}

}  // namespace autotrain
