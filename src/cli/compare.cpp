#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <memory>
#include <set>

#include "autotrain/log.h"
#include "autotrain/trainer.h"
#include "base/command_line.h"
#include "base/files.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/common_options.h"
#include "cli/compare_watch.h"
#include "cli/local_ranks.h"
#include "cli/study_command.h"
#include "compare/compare.h"
#include "compare/compare_page.h"
#include "compare/compare_tables.h"
#include "compare/converge.h"
#include "compare/finished_runs.h"
#include "compare/tuning.h"
#include "recipe/axes.h"
#include "report/table.h"
#include "state/run_folder.h"

namespace autotrain {
namespace {

struct CompareCommandOptions : OverrideOptions, PrintOptions, OutputOption {
  std::vector<std::filesystem::path> recipes;
  std::vector<std::string> vary;   ///< "batch.effective=64,256", an axis each
  std::vector<std::string> rules;  ///< values of batch.lr_rule
  std::optional<int64_t> sample;   ///< points of the grid; unset: all
  int64_t seeds = 3;
  std::string target = {};  ///< "accuracy=0.9"
  std::string figure = {};
  bool training_set = false;
  int64_t ranks = 1;
  bool halving = false;
  std::string tune = {};  ///< "optimizer.lr", or "optimizer.lr=0.01,0.1"
  int64_t tune_runs = 5;
  bool sharpness = false;
  bool paired = false;
  std::string margin = {};  ///< "0.3%", "12.5"
  bool confirm = false;
};

std::string text_of(const Comparison& comparison) {
  std::string text;
  for (const page::Table& each : tables_of(comparison)) {
    text += each.title + "\n" + TextTable(each.header, each.rows).text() + "\n";
  }
  for (const std::string& note : notes_of(comparison)) text += note + "\n";
  return text;
}

std::optional<Target> target_of(const CompareCommandOptions& options) {
  if (options.target.empty()) return std::nullopt;
  const size_t sign = options.target.find('=');
  Target target{.figure = options.target.substr(0, sign)};
  if (sign == std::string::npos || !parse_real(options.target.substr(sign + 1), target.value)) {
    throw Error(ExitCode::kUsage, "--target", quote(options.target) + " is no figure and value",
                "for instance --target accuracy=0.9");
  }
  return target;
}

std::optional<Margin> margin_of(const CompareCommandOptions& options) {
  if (options.margin.empty()) return std::nullopt;
  Margin margin{.percent = options.margin.ends_with('%')};
  const std::string number = options.margin.substr(0, options.margin.size() - (margin.percent ? 1 : 0));
  if (!parse_real(number, margin.value) || !(margin.value > 0) || !std::isfinite(margin.value)) {
    throw Error(ExitCode::kUsage, "--margin", quote(options.margin) + " is no number above 0",
                "for instance --margin 0.3% of a share, or --margin 12.5");
  }
  return margin;
}

// @param option that they are given by. @param instance of it.
std::vector<Axis> axes_of(const std::vector<std::string>& vary, const char* option = "--vary",
                          const char* instance = "--vary batch.effective=64,256,1024") {
  std::vector<Axis> axes;
  for (const std::string& text : vary) {
    std::optional<Axis> axis = parse_axis(text);
    if (!axis) {
      throw Error(ExitCode::kUsage, option, quote(text) + " names no values of a key",
                  cat("for instance ", instance));
    }
    axes.push_back(std::move(*axis));
  }
  return axes;
}

// The recipe's name where no other has it, else the file's, else with a number.
std::vector<NamedRecipe> labelled(const std::vector<std::filesystem::path>& files,
                                  const std::vector<std::string>& overrides) {
  std::vector<NamedRecipe> recipes;
  std::set<std::string> taken;
  for (const auto& file : files) {
    Recipe recipe = load_recipe(file, overrides);
    std::string label = taken.contains(recipe.name) ? file.stem().string() : recipe.name;
    for (int n = 2; taken.contains(label); ++n) label = cat(file.stem().string(), "-", n);
    taken.insert(label);
    recipes.push_back({label, std::move(recipe)});
  }
  return recipes;
}

// Several recipes, or one at the points of a grid.
CompareOptions study_of(const CompareCommandOptions& options) {
  if (options.vary.empty()) {
    CompareOptions study;
    study.recipes = labelled(options.recipes, options.overrides);
    return study;
  }
  if (options.recipes.size() > 1)
    throw Error(ExitCode::kUsage, "--vary",
                cat("makes a grid of one recipe, and ", options.recipes.size(), " are named"), "name one");
  return convergence({.config = options.recipes.front(),
                      .overrides = options.overrides,
                      .axes = axes_of(options.vary),
                      .rules = options.rules,
                      .sample = options.sample});
}

// Folders of runs in place of recipes: nothing is trained.
bool names_runs(const CompareCommandOptions& options) {
  const auto folders = std::ranges::count_if(
      options.recipes, [](const std::filesystem::path& path) { return std::filesystem::is_directory(path); });
  if (folders == 0 || folders == std::ssize(options.recipes)) return folders > 0;
  throw Error(ExitCode::kUsage, "compare", "is given recipes and folders of runs", "name either of them");
}

// The best and those that cannot be told from it, or may be it, on seeds that had no part in choosing them;
// null: nothing was chosen.
std::optional<Comparison> confirm(const CompareCommandOptions& options, const CompareOptions& study,
                                  const Comparison& found) {
  if (!found.best.recipe && found.best.alike.empty()) return std::nullopt;
  CompareOptions fresh = study;
  fresh.recipes.clear();
  if (found.best.recipe) fresh.recipes.push_back(study.recipes[*found.best.recipe]);
  for (const size_t alike : found.best.alike) fresh.recipes.push_back(study.recipes[alike]);
  fresh.first_seed = study.seeds + 1;
  fresh.pairs.clear();
  fresh.axes.clear();
  fresh.halving.reset();
  fresh.reads_test = true;
  fresh.folder = study.folder / cat("confirm-from-seed-", fresh.first_seed);
  CompareWatch watch("confirm", fresh, options.talks());
  watch.follow(fresh);
  return saying_how_to_go_on(study.folder, [&] { return compare(fresh); });
}

TuneOptions tuning_of(const CompareCommandOptions& options) {
  TuneOptions tuning{.key = options.tune, .runs = options.tune_runs};
  if (options.tune.find('=') == std::string::npos) return tuning;
  const std::vector<Axis> axes = axes_of({options.tune}, "--tune", "--tune optimizer.lr=0.01,0.03,0.1");
  tuning.key = axes[0].key;
  tuning.values = axes[0].values;
  return tuning;
}

// Each recipe gets its own best value of a key before they are compared.
void tune_first(const CompareCommandOptions& options, CompareOptions& study) {
  tune(study, tuning_of(options), [&](const CompareOptions& tuning) {
    CompareOptions watched = tuning;
    CompareWatch watch("tune", watched, options.talks());
    watch.follow(watched);
    return saying_how_to_go_on(study.folder, [&] { return compare(watched); });
  });
}

ExitCode report_comparison(const CompareCommandOptions& options, const Comparison& found,
                           const std::filesystem::path& folder,
                           const std::optional<Comparison>& confirmed = std::nullopt) {
  Tally tally;
  for (const RunOutcome& outcome : found.runs) tally.add(outcome.failure, outcome.code);
  const std::string last = cat(tally.all, tally.all == 1 ? " run" : " runs", " compared",
                               tally.failed > 0 ? cat(", of which ", tally.failed, " failed") : "", " · ",
                               (folder / "report.html").string(), "\n");
  std::string text = options.talks() ? text_of(found) + "\n" : "";
  nlohmann::ordered_json json = comparison_to_json(found);
  if (confirmed) {
    if (options.talks())
      text += "confirmed on fresh seeds, which had no part in choosing:\n\n" + text_of(*confirmed) + "\n";
    json["confirmed"] = comparison_to_json(*confirmed);
    for (const RunOutcome& outcome : confirmed->runs) tally.add(outcome.failure, outcome.code);
  }
  print_study(options, json, text + last, folder);
  return tally.code();
}

ExitCode compare_runs_that_are_there(const CLI::App& app, const CompareCommandOptions& options) {
  refuse_options(app,
                 {"--vary", "--rules", "--sample", "--seeds", "--set", "--halving", "--sharpness",
                  "--training-set", "--ranks", "--confirm", "--tune", "--tune-runs"},
                 "says how runs are made, and these are there already", "leave it out, or name recipes");
  const Comparison found = compare_finished_runs({.folders = options.recipes,
                                                  .figure = options.figure,
                                                  .target = target_of(options),
                                                  .paired = options.paired,
                                                  .command = own_command(),
                                                  .margin = margin_of(options)});
  const std::filesystem::path folder =
      options.output.empty() ? claim_first_free("runs", "compare") : options.output;
  make_folders(folder);
  write_comparison(found, folder);
  return report_comparison(options, found, folder);
}

ExitCode run_compare(const CLI::App& app, const CompareCommandOptions& options) {
  if (names_runs(options)) return compare_runs_that_are_there(app, options);
  if (options.vary.empty()) refuse_without("--vary", app, {"--rules", "--sample"});
  if (options.tune.empty()) refuse_without("--tune", app, {"--tune-runs"});
  refuse_several_ranks();
  install_signal_handlers();
  log::set_sink(log::terminal_sink(), options.log_level());
  CompareOptions study = study_of(options);
  study.seeds = options.seeds;
  study.figure = options.figure;
  study.target = target_of(options);
  study.paired = options.paired;
  study.margin = margin_of(options);
  study.training_set |= options.training_set;
  study.sharpness = options.sharpness;
  study.ranks = options.ranks;
  study.command = own_command();
  study.reads_test = !options.confirm;  // then the fresh seeds do
  if (options.halving) study.halving = HalvingRules();
  check_comparison(study);  // before a folder is made for it
  study.folder = options.output.empty() ? claim_first_free("runs", "compare") : options.output;
  if (options.talks()) log::info("compare", "runs in " + study.folder.string());
  if (!options.tune.empty()) tune_first(options, study);
  CompareWatch watch("compare", study, options.talks());
  watch.follow(study);
  const Comparison found = saying_how_to_go_on(study.folder, [&] { return compare(study); });
  return report_comparison(options, found, study.folder,
                           options.confirm ? confirm(options, study, found) : std::nullopt);
}

void declare_grid(CLI::App& app, CompareCommandOptions& options) {
  app.add_option(
         "--vary", options.vary,
         "Train one recipe at each of these values of a key: batch.effective=64,256; several times: at "
         "every combination; lists in brackets: 'data.train.size=[32,32],[64,64]'; several keys that "
         "take the same values with commas: data.train.size,data.validation.size=…")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUES");
  app.add_option("--rules", options.rules,
                 "Of --vary: values of batch.lr_rule, a further axis; default, beside batch sizes alone: the "
                 "recipe's and none")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("RULE,…");
  app.add_option("--sample", options.sample,
                 "Of --vary: only so many points of the grid, drawn by the recipe's seed")
      ->check(CLI::Range(1, 10000));
}

void declare_comparison(CLI::App& app, CompareCommandOptions& options) {
  app.add_option("--seeds", options.seeds, "Train each recipe with the seeds 1 to this")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app.add_option("--target", options.target, "Time, samples and updates to a figure: accuracy=0.9")
      ->type_name("FIGURE=VALUE");
  app.add_option("--figure", options.figure,
                 "The figure to compare; default: the target's, else what the first recipe monitors")
      ->type_name("FIGURE");
  app.add_flag("--training-set", options.training_set,
               "Also evaluate the final weights on the training data: the generalisation gap");
  app.add_flag(
      "--sharpness", options.sharpness,
      "Also measure how sharp the minimum of the final weights is: the largest eigenvalue of the Hessian, "
      "and how the loss rises along random directions");
  app.add_flag(
      "--paired", options.paired,
      "Test in pairs of the same seed, where recipes rise and fall together over the seeds; to be chosen "
      "before the figures are seen");
  app.add_option("--margin", options.margin,
                 "The least difference that matters: also tests whether recipes are the same within it")
      ->type_name("NUMBER[%]");
  app.add_flag(
      "--confirm", options.confirm,
      "Then train the best, and those that cannot be told from it, with as many fresh seeds, and report "
      "that apart");
  app.add_option("--tune", options.tune,
                 "Before that, find each recipe's own best value of a key, so that none is compared at "
                 "another's: optimizer.lr, around what it has; or of these values: optimizer.lr=0.01,0.1")
      ->type_name("KEY[=VALUES]");
  app.add_option("--tune-runs", options.tune_runs,
                 "Of --tune: values tried for each recipe, 3, 5, 7 or 9, each three times the one before; "
                 "two more where the best is at the edge")
      ->check(CLI::IsMember({3, 5, 7, 9}))
      ->capture_default_str();
  app.add_flag(
      "--halving", options.halving,
      "Successive halving: of all points a third goes on to three times the length, and so on; for many "
      "points");
  app.add_option("--ranks", options.ranks, "Processes of this machine that make each run together")
      ->check(CLI::Range(int64_t{1}, kMostLocalRanks));
}

std::function<ExitCode()> declare_compare(CLI::App& app) {
  const auto options = std::make_shared<CompareCommandOptions>();
  app.add_option("recipes", options->recipes, "Recipes, YAML files; or folders of runs that have ended")
      ->required()
      ->type_name("RECIPE…");
  options->PrintOptions::declare(app);
  options->OutputOption::declare(
      app, "Folder of the study; one that is there is gone on with; default: runs/compare-<n>");
  options->OverrideOptions::declare(app, "Override a key of every recipe: section.key=value; repeatable");
  declare_grid(app, *options);
  declare_comparison(app, *options);
  return [options, &app] { return run_compare(app, *options); };
}

constexpr const char* kCompareExamples = R"(
Examples:
  autotrain compare A.yaml B.yaml --seeds 5
      train both with the seeds 1 to 5; which differences are real, and how many
      seeds would show it
  autotrain compare A.yaml B.yaml --seeds 10 --output runs/compare-1
      five seeds more of a comparison that is there; what is finished is kept
  autotrain compare A.yaml B.yaml --target accuracy=0.9 --set stop.epochs=20
      also the time, samples and updates to a figure, with a key of both recipes
      changed
  autotrain compare runs/a-1 runs/a-2 runs/b-1 runs/b-2
      runs that are there, whoever made them: those whose recipes learn alike
      but for the seed are one recipe's
  autotrain compare R.yaml --vary batch.effective=64,256,1024 --seeds 5
      train one recipe at each effective batch, with and without its
      learning-rate rule, and compare
  autotrain compare R.yaml --vary batch.effective=64,1024 --tune optimizer.lr
      each batch at the learning rate that is best for it, of five around the
      recipe's
  autotrain compare R.yaml --vary batch.effective=64,1024 \
      --vary optimizer.name=sgd,lars,lamb --rules linear,sqrt \
      --sample 8 --halving
      eight points of a grid, of which a third goes on to three times the
      length, and so on
)";

}  // namespace

extern const Command kCompare;
const Command kCompare = {"compare", "Train recipes, or a grid of one, and say which differences are real",
                          kCompareExamples, declare_compare};

}  // namespace autotrain
