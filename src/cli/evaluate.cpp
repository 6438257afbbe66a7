#include <CLI/CLI.hpp>
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
#include "cli/run_checkpoint.h"
#include "plan/plan_json.h"
#include "report/live_text.h"
#include "report/table.h"
#include "study/evaluated_checkpoint.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

struct EvaluateOptions : RunCheckpointOptions, OverrideOptions, PrintOptions {};

Recipe recipe_of(const EvaluateOptions& options) {
  options.check_run();
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
  const int64_t update = options.update();
  const fs::path checkpoint = CheckpointFolder(options.run / "checkpoints").path_of(update);
  Evaluation found;
  {
    LiveText progress(stderr);
    found = evaluate_checkpoint(recipe, plan_of(options.run), checkpoint, [&](int64_t samples) {
      if (options.talks() && progress.due())
        progress.show(cat("evaluating: ", format_count(samples), " samples"));
    });
  }
  print(found, update, options);
  return ExitCode::kDone;
}

std::function<ExitCode()> declare_evaluate(CLI::App& app) {
  const auto options = std::make_shared<EvaluateOptions>();
  options->RunCheckpointOptions::declare(app);
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
