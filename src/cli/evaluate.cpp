#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "autotrain/log.h"
#include "autotrain/trainer.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "cli/command.h"
#include "cli/common_options.h"
#include "cli/console.h"
#include "plan/plan_json.h"
#include "report/live_text.h"
#include "report/table.h"
#include "study/evaluated_checkpoint.h"
#include "trainer/run_report.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

struct EvaluateOptions : OverrideOptions, PrintOptions {
  fs::path run;
  std::string checkpoint = "newest";  ///< or "best", or an update
};

// The checkpoint that is asked for. The best one is what the run's summary says.
int64_t update_asked(const EvaluateOptions& options, const CheckpointFolder& checkpoints) {
  const std::vector<int64_t> updates = checkpoints.updates();
  if (options.checkpoint == "newest") {
    const auto newest = checkpoints.read_newest_state();
    if (newest) return newest->first;
    throw Error(ExitCode::kMissingFile, options.run.string(), "holds no checkpoint",
                "name the folder of a run that has one");
  }
  int64_t update = -1;
  if (options.checkpoint == "best") {
    update = count_in(part_in(read_json(options.run / "summary.json"), "best"), "update");
  } else if (!parse_integer(options.checkpoint, update)) {
    throw Error(ExitCode::kUsage, "--checkpoint", quote(options.checkpoint) + " is no checkpoint",
                "give newest, best or the number of an update");
  }
  if (std::ranges::find(updates, update) != updates.end()) return update;
  std::vector<std::string> names;
  for (const int64_t each : updates) names.push_back(std::to_string(each));
  throw Error(ExitCode::kMissingFile, options.run.string(), cat("has no checkpoint of update ", update),
              names.empty() ? "it has none" : "it has those of updates " + join(names, ", "));
}

Recipe recipe_of(const EvaluateOptions& options) {
  if (!is_run_folder(options.run))
    throw Error(ExitCode::kMissingFile, options.run.string(), "holds no run",
                "name the folder of a run: it has recipe.yaml, plan.json and metrics.jsonl");
  Recipe recipe = load_recipe(options.run / "recipe.yaml", options.overrides);
  if (recipe.data.validation) return recipe;
  throw Error(ExitCode::kBadRecipe, "data.validation", "is not set: there is nothing to evaluate on",
              "give it with --set data.validation.dataset=…");
}

BatchPlan plan_of(const fs::path& run) {
  try {
    return plan_from_json(read_json(run / "plan.json"));
  } catch (const nlohmann::json::exception&) {
    throw Error(ExitCode::kBadData, (run / "plan.json").string(), "is damaged or of another version",
                "evaluate with the version that trained it");
  }
}

std::string text_of(const FigureTable& table) {
  std::vector<std::string> header = {cat(table.rows_are, " \\ ", table.columns_are)};
  for (size_t i = 0; !table.cells.empty() && i < table.cells[0].size(); ++i)
    header.push_back(std::to_string(i));
  TextTable text(header);
  for (size_t row = 0; row < table.cells.size(); ++row) {
    std::vector<std::string> cells = {std::to_string(row)};
    for (const double cell : table.cells[row]) cells.push_back(brief(cell, 6));
    text.add_row(cells);
  }
  return cat(table.name, "\n", text.text());
}

void print(const Evaluation& found, int64_t update, const EvaluateOptions& options) {
  if (options.json) {
    nlohmann::ordered_json json = {{"run", options.run.string()}, {"update", update}};
    json.update(found.to_json());
    std::fputs(text_of_json(json).c_str(), stdout);
    return;
  }
  std::printf("update %lld: %s\n", static_cast<long long>(update), figures_text(found.figures).c_str());
  for (const FigureTable& table : found.tables) std::printf("\n%s", text_of(table).c_str());
}

ExitCode evaluate_run(const EvaluateOptions& options) {
  log::set_sink(log::terminal_sink(), options.log_level());
  refuse_several_ranks();
  install_signal_handlers();
  const Recipe recipe = recipe_of(options);
  const CheckpointFolder checkpoints(options.run / "checkpoints");
  const int64_t update = update_asked(options, checkpoints);
  Evaluation found;
  {
    LiveText progress(stderr);
    found =
        evaluate_checkpoint(recipe, plan_of(options.run), checkpoints.path_of(update), [&](int64_t samples) {
          if (options.talks() && progress.due())
            progress.show(cat("evaluating: ", format_count(samples), " samples"));
        });
  }
  print(found, update, options);
  return ExitCode::kDone;
}

std::function<ExitCode()> declare_evaluate(CLI::App& app) {
  const auto options = std::make_shared<EvaluateOptions>();
  app.add_option("--run", options->run, "The folder of a run")->required()->type_name("DIR");
  app.add_option("--checkpoint", options->checkpoint, "newest, best, or the number of an update")
      ->capture_default_str()
      ->type_name("WHICH");
  options->OverrideOptions::declare(app, "Override a key of the run's recipe: section.key=value; repeatable");
  options->PrintOptions::declare(app);
  return [options] { return evaluate_run(*options); };
}

constexpr const char* kEvaluateExamples = R"(
Examples:
  autotrain evaluate --run runs/a
      every figure of the newest checkpoint on the run's validation data, as the run itself found them
  autotrain evaluate --run runs/a --checkpoint best --set data.validation.split=test --json
      the best checkpoint on other data, as JSON
)";

}  // namespace

extern const Command kEvaluate;
const Command kEvaluate = {"evaluate", "Measure a trained run's weights on its validation data, or on others",
                           kEvaluateExamples, declare_evaluate};

}  // namespace autotrain
