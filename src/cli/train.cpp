#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "autotrain/trainer.h"
#include "base/command_line.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/common_options.h"
#include "cli/console.h"
#include "cli/local_ranks.h"
#include "comm/launch.h"
#include "loop/requeue.h"
#include "report/metrics_file.h"

namespace autotrain {
namespace {

struct TrainOptions : RecipeOptions, PrintOptions, OutputOption, RanksOption {
  bool resume = false;
  bool allow_change = false;

  TrainerOptions of_run(RunObserver& observer) const {
    return {.output = output,
            .resume = resume,
            .allow_change = allow_change,
            .fresh_plan = fresh_plan,
            .observer = &observer};
  }
};

// The first rank tells what all of them do.
ExitCode train_beside_the_first(const TrainOptions& options, const Recipe& recipe, int64_t rank) {
  RankLog log(rank, options);
  const Summary summary = Trainer::from_recipe(recipe, options.of_run(log)).fit();
  return static_cast<ExitCode>(summary.exit_code);
}

ExitCode train(const TrainOptions& options) {
  options.check_named();
  if (options.resume && options.output.empty()) {
    throw Error(ExitCode::kUsage, "--resume", "does not say which run to go on with",
                "add --output with the run's folder");
  }
  const Recipe recipe = options.load();
  install_signal_handlers();
  const StopSignalScope requeue(signal_number(recipe.execution.requeue_signal));
  if (options.starts_them()) return run_local_ranks(options.ranks, options.config);
  const int64_t rank = detect_launch(process_environment()).place.rank;
  if (rank > 0) return train_beside_the_first(options, recipe, rank);
  Console console(options);
  TrainerOptions of_run = options.of_run(console);
  of_run.search_apart = true;
  Trainer trainer = Trainer::from_recipe(recipe, std::move(of_run));
  const Summary summary = trainer.fit();
  if (options.json) std::fputs(text_of_json(summary_to_json(summary)).c_str(), stdout);
  if (summary.status == RunStatus::kInterrupted && !options.json) {
    // The run's own recipe has every --set in it.
    std::printf("go on with: autotrain train --config %s --output %s --resume\n",
                shell_word(summary.folder + "/recipe.yaml").c_str(), shell_word(summary.folder).c_str());
  }
  return static_cast<ExitCode>(summary.exit_code);
}

std::function<ExitCode()> declare_train(CLI::App& app) {
  const auto options = std::make_shared<TrainOptions>();
  options->RecipeOptions::declare(app);
  options->PrintOptions::declare(app);
  options->OutputOption::declare(app, "Run folder; default: runs/<name>-<n>, the first free n");
  options->RanksOption::declare(app);
  app.add_flag("--resume", options->resume, "Go on from the newest checkpoint in --output");
  app.add_flag("--allow-change", options->allow_change, "Resume although the recipe changes what is learned");
  return [options] { return train(*options); };
}

constexpr const char* kTrainExamples = R"(
Examples:
  autotrain train --config recipes/fashion_mnist_cnn.yaml
      find the micro-batch, train, evaluate, checkpoint; leaves
      runs/fashion_mnist_cnn-1
  autotrain train --config R.yaml --set optimizer.lr=0.01
      the same recipe with a key changed; null unsets it
  autotrain train --config R.yaml --output runs/a --resume
      go on from the newest checkpoint in runs/a; without one, start there
  autotrain train --config R.yaml --ranks 2
      two processes of this machine make every update together
)";

}  // namespace

extern const Command kTrain;
const Command kTrain = {"train", "Find the batch that fills the memory budget, train, evaluate",
                        kTrainExamples, declare_train};

}  // namespace autotrain
