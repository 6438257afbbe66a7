#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "autotrain/log.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/compare_watch.h"
#include "cli/lr_race.h"
#include "cli/lr_text.h"
#include "cli/run_apart.h"
#include "cli/study_command.h"
#include "lr/learning_rate.h"
#include "lr/lr_json.h"
#include "lr/lr_page.h"
#include "report/live_text.h"
#include "state/run_folder.h"
#include "study/recipe_files.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

struct LrOptions : RecipeOptions, PrintOptions, OutputOption, RaceOptions {
  RunChoice run;
  RangeTestOptions range;
};

// Shows a person how far the test is.
class RangeWatch {
 public:
  RangeWatch(bool talks, int64_t stretches) : talks_(talks), stretches_(stretches), live_(stderr) {}

  void on_update(const RangeProgress& now) {
    if (!talks_ || !live_.due()) return;
    live_.show(cat("stretch ", now.stretch + 1, " of ", stretches_, " · ", now.held ? "holding " : "",
                   "learning rate ", brief(now.lr, 3), " · loss ", brief(now.loss), "\n"));
  }

 private:
  const bool talks_;
  const int64_t stretches_;
  LiveText live_;
};

void publish(const LrOptions& options, const LearningRateReport& report, const fs::path& folder) {
  write_learning_rate(report, folder);
  print_study(
      options, to_json(report),
      cat(lr_text(report, options.talks()), options.talks() ? (folder / "lr.html").string() + "\n" : ""),
      folder);
}

void check(const CLI::App& app, const LrOptions& options) {
  refuse_several_ranks();
  options.RaceOptions::check(app);
  if (options.config.empty() == options.run.folder.empty()) {
    throw Error(ExitCode::kUsage, "autotrain lr", "takes a recipe or a run",
                "give --config R.yaml, or --run DIR to begin with its trained weights");
  }
  if (options.run.folder.empty()) refuse_without("--run", app, {"--checkpoint"});
  if (options.range.from > options.range.to)
    throw Error(ExitCode::kUsage, "--from", "is larger than --to", "for instance --from 1e-6 --to 10");
}

LearningRateTest test_of(const LrOptions& options) {
  RangeTestOptions range = options.range;
  log::info("lr", cat("range test: rates from ", shortest(range.from), " to ", shortest(range.to),
                      ", or until the loss diverges, on ", range.stretches,
                      range.stretches == 1 ? " stretch" : " stretches", " of the data"));
  RangeWatch watch(options.talks(), range.stretches);
  range.on_update = [&](const RangeProgress& now) { watch.on_update(now); };
  if (options.run.folder.empty()) return test_learning_rate(options.load(), options.fresh_plan, range);
  return test_learning_rate(open_trained_run(options.run, options.overrides), range);
}

fs::path folder_for(const LrOptions& options, const std::string& name) {
  return options.output.empty() ? claim_first_free("runs", name + "-lr") : options.output;
}

// Its report would lack the race.
void refuse_folder_of_race(const fs::path& folder) {
  if (folder.empty() || !fs::exists(folder / "race")) return;
  throw Error(ExitCode::kUsage, folder.string(),
              "holds a race of learning rates, which a test alone would replace",
              "give another --output, or --race to go on with it");
}

ExitCode run_test(const LrOptions& options) {
  refuse_folder_of_race(options.output);
  LearningRateReport report;
  report.test = test_of(options);
  report.name = report.test->name;
  publish(options, report, folder_for(options, report.name));
  return ExitCode::kDone;
}

// ------------------------------------------------------------------ --race

// What the range test finds is read from its file, as when an earlier call has left it there. It is made in a
// process of its own, as this one is to start those of the race (see Child).
LearningRateTest test_apart(const LrOptions& options, const Recipe& recipe, const fs::path& folder) {
  const nlohmann::ordered_json definition = definition_of(recipe, options.range);
  if (const auto kept = kept_test(folder, definition)) {
    log::info("lr", cat("keeps the range test that is in ", (folder / "lr.json").string()));
    return *kept;
  }
  if (!options.figure.empty()) {
    run_apart("lr", folder.string(), "look at what the recipe measures", [&] {
      check_figures(comparison_of(options, options, {recipe.optimizer.lr}));
      return 0;
    });
  }
  run_apart("lr", folder.string(), "range test", [&] {
    write_learning_rate({.name = recipe.name, .test = test_of(options)}, folder);
    return 0;
  });
  return kept_test(folder, definition).value();
}

// A test that an earlier call left in the folder stays in its report.
std::optional<LearningRateTest> earlier_test(const Recipe& recipe, const fs::path& folder) {
  return kept_test(folder, recipe_definition(recipe, RecipeFiles().of(recipe)));
}

Comparison run_comparison(const LrOptions& options, const RateGrid& grid, const fs::path& folder) {
  CompareOptions study = comparison_of(options, options, grid.rates);
  study.folder = folder / "race";
  CompareWatch watch("lr", study, options.talks());
  watch.follow(study);
  std::vector<std::string> rates;
  for (const double rate : grid.rates) rates.push_back(shortest(rate));
  const double work = Halving(rates.size(), static_cast<size_t>(study.seeds), kRaceRules).planned_work();
  log::info("lr", cat("races optimizer.lr ", join(rates, ", "), " (", grid.origin, ") with ", study.seeds,
                      study.seeds == 1 ? " seed" : " seeds", " each: as much training as ", brief(work, 3),
                      " whole runs, in ", study.folder.string()));
  return compare(study);
}

ExitCode race_in(const fs::path& folder, const LrOptions& options, const Recipe& recipe) {
  LearningRateReport report{.name = recipe.name};
  report.test = options.rates.empty() ? test_apart(options, recipe, folder) : earlier_test(recipe, folder);
  const RateGrid grid =
      options.rates.empty() ? rates_to_race(*report.test) : rates_to_race(options.rates, recipe.optimizer.lr);
  const Comparison found = run_comparison(options, grid, folder);
  report.race = race_of(found, grid, recipe);
  publish(options, report, folder);
  Tally tally;
  for (const RunOutcome& run : found.runs) tally.add(run.failure, run.code);
  if (!finishing_order(*report.race).empty()) return ExitCode::kDone;
  return tally.failed > 0 ? exit_code_of(tally.first_code) : ExitCode::kDiverged;
}

ExitCode run_race(const LrOptions& options) {
  const Recipe recipe = options.load();
  const RateGrid known = rates_to_race(options.rates, recipe.optimizer.lr);
  // Before a range test takes its time.
  check_comparison(comparison_of(options, options, known.rates));
  if (!options.rates.empty() && known.rates.size() == 1)
    throw Error(ExitCode::kUsage, "--rates",
                "names the recipe's own rate alone, which has nothing to race against",
                "for instance --rates 0.001,0.003,0.01");
  const fs::path folder = folder_for(options, recipe.name);
  return saying_how_to_go_on(folder, [&] { return race_in(folder, options, recipe); });
}

ExitCode run_lr(const CLI::App& app, const LrOptions& options) {
  check(app, options);
  install_signal_handlers();
  log::set_sink(log::terminal_sink(), options.log_level());
  return options.race ? run_race(options) : run_test(options);
}

std::function<ExitCode()> declare_lr(CLI::App& app) {
  const auto options = std::make_shared<LrOptions>();
  RangeTestOptions& range = options->range;
  options->RecipeOptions::declare(app);
  options->PrintOptions::declare(app);
  options->OutputOption::declare(
      app, "Folder for lr.json, lr.html and the runs of a race; default: runs/<name>-lr-<n>");
  app.add_option("--run", options->run.folder, "Begin with the weights of a run")->type_name("DIR");
  app.add_option("--checkpoint", options->run.checkpoint, "newest, best, or the number of an update")
      ->capture_default_str()
      ->type_name("WHICH");
  app.add_option("--from", range.from, "Least learning rate")->check(learning_rate())->capture_default_str();
  app.add_option("--to", range.to, "Greatest learning rate")->check(learning_rate())->capture_default_str();
  app.add_option("--factor", range.factor, "From one rate to the next")
      ->check(number_from(1.01, 10))
      ->capture_default_str();
  app.add_option("--stretches", range.stretches, "Stretches of the stream, each tested from the same weights")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  app.add_option("--hold", range.held_updates, "Updates at each rate that is held to find the edge")
      ->check(CLI::Range(4, 100000))
      ->capture_default_str();
  options->RaceOptions::declare(app);
  return [options, &app] { return run_lr(app, *options); };
}

constexpr const char* kLrExamples = R"(
Examples:
  autotrain lr --config R.yaml
      where training diverges, where the loss falls fastest and up to where it
      is low, on three stretches of the data; a line for the recipe where they
      agree, else "undetermined"
  autotrain lr --config R.yaml --set optimizer.clip_norm=null --to 100
      the same without clipping, which hides divergence, over other rates
  autotrain lr --run runs/a --checkpoint best
      from trained weights, on what the run would train on next
  autotrain lr --config R.yaml --race
      also train: five rates around what the test says and the recipe's own,
      three seeds each, the best third to the end; which one wins on the
      validation data, and whether the seeds tell it apart
  autotrain lr --config R.yaml --race --rates 0.001,0.003,0.01 --seeds 5
      these rates and the recipe's own, without a range test
)";

}  // namespace

extern const Command kLr;
const Command kLr = {"lr", "Test learning rates, and suggest one where the tests agree", kLrExamples,
                     declare_lr};

}  // namespace autotrain
