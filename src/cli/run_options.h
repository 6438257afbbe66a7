#pragma once

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/common_options.h"
#include "study/trained_run.h"

namespace autotrain {

/// --run, --checkpoint: which weights a command uses.
struct RunChoiceOptions {
  RunChoice run;

  void declare(CLI::App& app) {
    app.add_option("--run", run.folder, "The folder of a run")->required()->type_name("DIR");
    app.add_option("--checkpoint", run.checkpoint, "newest, best, or the number of an update")
        ->capture_default_str()
        ->type_name("WHICH");
  }
};

/// The choice of a run, with --weights for others of its model and --set for keys of its recipe.
struct RunOptions : RunChoiceOptions, OverrideOptions {
  void declare(CLI::App& app) {
    RunChoiceOptions::declare(app);
    app.add_option("--weights", run.weights,
                   "Weights in the place of the checkpoint's: a file of autotrain export or compress, "
                   "or a folder or index of shards")
        ->type_name("FILE");
    OverrideOptions::declare(app, "Override a key of the run's recipe: section.key=value; repeatable");
  }

  /// @throws as open_trained_run.
  TrainedRun open() const { return open_trained_run(run, overrides); }
};

}  // namespace autotrain
