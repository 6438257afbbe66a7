#include "cli/compare.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <set>

#include "autotrain/log.h"
#include "autotrain/trainer.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/compare_watch.h"
#include "cli/local_ranks.h"
#include "cli/study_command.h"
#include "compare/compare.h"
#include "compare/compare_tables.h"
#include "compare/converge.h"
#include "recipe/axes.h"
#include "report/table.h"
#include "state/run_folder.h"

namespace autotrain {
namespace {

std::string text_of(const Comparison& comparison) {
  std::string text;
  for (const page::Table& each : tables_of(comparison)) {
    text += each.title + "\n" + TextTable(each.header, each.rows).text() + "\n";
  }
  for (const std::string& note : notes_of(comparison)) text += note + "\n";
  return text;
}

std::optional<Target> target_of(const ComparisonOptions& options) {
  if (options.target.empty()) return std::nullopt;
  const size_t sign = options.target.find('=');
  Target target{.figure = options.target.substr(0, sign)};
  if (sign == std::string::npos || !parse_real(options.target.substr(sign + 1), target.value)) {
    throw Error(ExitCode::kUsage, "--target", quote(options.target) + " is no figure and value",
                "for instance --target accuracy=0.9");
  }
  return target;
}

std::vector<Axis> axes_of(const ConvergenceRequest& options) {
  constexpr const char* kExample = "--vary batch.effective=64,256,1024";
  if (options.vary.empty()) {
    throw Error(ExitCode::kUsage, "--mode converge", "does not say which values of which key to train with",
                std::string("add ") + kExample);
  }
  std::vector<Axis> axes;
  for (const std::string& text : options.vary) {
    std::optional<Axis> axis = parse_axis(text);
    if (!axis) {
      throw Error(ExitCode::kUsage, "--vary", quote(text) + " names no values of a key",
                  std::string("for instance ") + kExample);
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

ExitCode run(CompareOptions study, const ComparisonOptions& how, const PrintOptions& print,
             const std::filesystem::path& output) {
  refuse_several_ranks();
  install_signal_handlers();
  log::set_sink(log::terminal_sink(), print.log_level());
  study.seeds = how.seeds;
  study.figure = how.figure;
  study.target = target_of(how);
  study.training_set |= how.training_set;
  study.sharpness = how.sharpness;
  study.ranks = how.ranks;
  if (how.halving) study.halving = HalvingRules();
  check_comparison(study);  // before a folder is made for it
  study.folder = output.empty() ? claim_first_free("runs", "compare") : output;
  CompareWatch watch("compare", study, print.talks());
  watch.follow(study);
  if (print.talks()) log::info("compare", "runs in " + study.folder.string());
  const Comparison found = saying_how_to_go_on(study.folder, [&] { return compare(study); });
  Tally tally;
  for (const RunOutcome& outcome : found.runs) tally.add(outcome.failure, outcome.code);
  const std::string last = cat(tally.all, tally.all == 1 ? " run" : " runs", " compared",
                               tally.failed > 0 ? cat(", of which ", tally.failed, " failed") : "", " · ",
                               (study.folder / "report.html").string(), "\n");
  const std::string text = print.talks() ? text_of(found) + "\n" : "";
  print_study(print, comparison_to_json(found), text + last, study.folder);
  return tally.code();
}

struct CompareCommandOptions : OverrideOptions, PrintOptions, OutputOption, ComparisonOptions {
  std::vector<std::filesystem::path> recipes;
};

ExitCode run_compare(const CompareCommandOptions& options) {
  CompareOptions study;
  study.recipes = labelled(options.recipes, options.overrides);
  return run(std::move(study), options, options, options.output);
}

std::function<ExitCode()> declare_compare(CLI::App& app) {
  const auto options = std::make_shared<CompareCommandOptions>();
  app.add_option("recipes", options->recipes, "Recipes, YAML files")->required()->type_name("FILE…");
  options->PrintOptions::declare(app);
  options->OutputOption::declare(
      app, "Folder of the study, gone on with if it is there; default: runs/compare-<n>");
  options->OverrideOptions::declare(app, "Override a key of every recipe: section.key=value; repeatable");
  options->ComparisonOptions::declare(app);
  return [options] { return run_compare(*options); };
}

constexpr const char* kCompareExamples = R"(
Examples:
  autotrain compare A.yaml B.yaml --seeds 5
      train both with the seeds 1 to 5; which differences are real, and how many seeds would show it
  autotrain compare A.yaml B.yaml --seeds 10 --output runs/compare-1
      five seeds more of a comparison that is there; what is finished is kept
  autotrain compare A.yaml B.yaml --target accuracy=0.9 --set stop.epochs=20
      also the time, samples and updates to a figure, with a key of both recipes changed
)";

}  // namespace

extern const Command kCompare;
const Command kCompare = {"compare", "Train recipes with the same seeds and say what differs, and how surely",
                          kCompareExamples, declare_compare};

void ComparisonOptions::declare(CLI::App& app) {
  app.add_option("--seeds", seeds, "Train each recipe with the seeds 1 to this")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app.add_option("--target", target, "Time, samples and updates to a figure: accuracy=0.9")
      ->type_name("FIGURE=VALUE");
  app.add_option("--figure", figure,
                 "The figure to compare; default: the target's, else what the first recipe monitors");
  app.add_flag("--training-set", training_set,
               "Also evaluate the final weights on the training data: the generalisation gap");
  app.add_flag(
      "--sharpness", sharpness,
      "Also measure how sharp the minimum of the final weights is: the largest eigenvalue of the Hessian, "
      "and how the loss rises along random directions");
  app.add_flag(
      "--halving", halving,
      "Successive halving: of all points a third goes on to three times the length, and so on; for many "
      "points");
  app.add_option("--ranks", ranks, "Processes of this machine that make each run together")
      ->check(CLI::Range(int64_t{1}, kMostLocalRanks));
}

ExitCode run_converge(const ConvergenceRequest& what, const ComparisonOptions& how, const PrintOptions& print,
                      const std::filesystem::path& output) {
  return run(convergence({.config = what.config,
                          .overrides = what.overrides,
                          .axes = axes_of(what),
                          .rules = what.rules,
                          .sample = what.sample}),
             how, print, output);
}

}  // namespace autotrain
