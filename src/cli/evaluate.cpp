#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/interrupt.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/run_options.h"
#include "report/figure_table.h"
#include "report/live_text.h"
#include "report/run_columns.h"
#include "study/evaluated_checkpoint.h"

namespace autotrain {
namespace {

struct EvaluateOptions : RunOptions, PrintOptions {
  std::string data = "validation";  ///< or "test"
};

TrainedRun open_run(const EvaluateOptions& options) {
  TrainedRun run = options.open();
  if (options.data == "test") {
    if (!run.recipe.data.test)
      throw Error(ExitCode::kBadRecipe, "data.test", "is not set: there are no test data",
                  "give some with --set data.test.dataset=…");
    run.recipe.data.validation = run.recipe.data.test;
  }
  if (run.recipe.data.validation) return run;
  throw Error(ExitCode::kBadRecipe, "data.validation", "is not set: there is nothing to evaluate on",
              "give it with --set data.validation.dataset=…");
}

// @param samples that were evaluated; 0: not known.
void print(const Evaluation& found, int64_t samples, const TrainedRun& run, const EvaluateOptions& options) {
  const std::vector<std::string> classes = class_names_of(run.folder);
  if (options.json) {
    nlohmann::ordered_json json = {{"run", run.folder.string()}, {"update", run.update}};
    if (!run.weights.empty()) json["weights"] = run.weights.string();
    if (!classes.empty()) json["classes"] = classes;
    json.update(found.to_json());
    std::fputs(text_of_json(json).c_str(), stdout);
    return;
  }
  const std::string of = run.weights.empty() ? cat("update ", run.update) : run.weights.string();
  const std::string on =
      samples > 0 ? cat(" · on ", format_count(samples), samples == 1 ? " sample" : " samples") : "";
  std::printf("%s: %s%s\n", of.c_str(), figures_text(found.figures).c_str(), on.c_str());
  for (const FigureTable& table : found.tables) std::printf("\n%s", text_of(table, classes).c_str());
}

ExitCode evaluate_run(const EvaluateOptions& options) {
  log::set_sink(log::terminal_sink(), options.log_level());
  refuse_several_ranks();
  install_signal_handlers();
  const TrainedRun run = open_run(options);
  Evaluation found;
  int64_t evaluated = 0;
  {
    LiveText progress(stderr);
    found = evaluate_checkpoint(run, [&](int64_t samples) {
      evaluated = samples;
      if (options.talks() && progress.due())
        progress.show(cat("evaluating: ", format_count(samples), " samples"));
    });
  }
  print(found, evaluated, run, options);
  return ExitCode::kDone;
}

std::function<ExitCode()> declare_evaluate(CLI::App& app) {
  const auto options = std::make_shared<EvaluateOptions>();
  options->RunOptions::declare(app);
  app.add_option("--data", options->data, "validation, or test: data.test, which chose nothing")
      ->check(CLI::IsMember({"validation", "test"}))
      ->capture_default_str();
  options->PrintOptions::declare(app);
  return [options] { return evaluate_run(*options); };
}

constexpr const char* kEvaluateExamples = R"(
Examples:
  autotrain evaluate --run runs/a
      every figure of the newest checkpoint on the run's validation data, as the
      run itself found them
  autotrain evaluate --run runs/a --data test --checkpoint best
      the best checkpoint on the recipe's test data
  autotrain evaluate --run runs/a --set data.validation.split=test --json
      the newest one on other data, as JSON
)";

}  // namespace

extern const Command kEvaluate;
const Command kEvaluate = {"evaluate", "Measure a run's weights on its validation data, or on others",
                           kEvaluateExamples, declare_evaluate};

}  // namespace autotrain
