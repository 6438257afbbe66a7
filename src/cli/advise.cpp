#include <CLI/CLI.hpp>
#include <cstdio>
#include <limits>
#include <memory>

#include "advise/advice.h"
#include "advise/advice_page.h"
#include "advise/advice_words.h"
#include "advise/speeds.h"
#include "autotrain/log.h"
#include "autotrain/trainer.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "base/units.h"
#include "checkpoint/checkpoint.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/run_apart.h"
#include "cli/study_command.h"
#include "compare/compare.h"
#include "report/live_text.h"
#include "report/table.h"
#include "state/run_folder.h"
#include "study/trained_run.h"
#include "trainer/run_report.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

struct AdviseOptions : RecipeOptions, PrintOptions, OutputOption {
  fs::path run;
  int64_t updates = 128;
  double seconds = 10;
  bool branches = false;
  std::string checkpoint = "auto";
  std::vector<double> factors = {0.5, 1, 2, 4};
  int64_t seeds = 3;
  int64_t samples = 0;
  double margin = 0.01;

  fs::path folder() const { return output.empty() ? run : output; }
};

// ------------------------------------------------------------------ the short run

// An update of one micro-batch has nothing to compare: two lanes make the same update of two.
bool lacks_parts(const BatchPlan& plan) {
  return plan.window == 1 && plan.lanes == 1 && plan.effective_batch > 1;
}

void give_it_parts(Recipe& recipe, const BatchPlan& plan) {
  recipe.batch.effective = plan.effective_batch;
  recipe.execution.lanes = 2;
  recipe.execution.micro_batch.reset();
  log::info("advise", "an update is one micro-batch: the short run makes it in two lanes, to see its noise");
}

// In a process of its own.
int train_shortly(const AdviseOptions& options) {
  Console console(options);
  Recipe recipe = options.load();
  if (recipe.execution.statistics == Statistics::kOff) recipe.execution.statistics = Statistics::kAuto;
  const TrainerOptions how{
      .output = options.run, .fresh_plan = options.fresh_plan, .search_apart = true, .observer = &console};
  Trainer trainer = Trainer::from_recipe(recipe, how);
  if (const BatchPlan plan = trainer.plan(); lacks_parts(plan)) {
    give_it_parts(recipe, plan);
    trainer = Trainer::from_recipe(recipe, how);
  }
  trainer.on_update([&](const UpdateRecord& record) {
    return record.update < options.updates ? Flow::kContinue : Flow::kStop;
  });
  return trainer.fit().exit_code;
}

void make_short_run(AdviseOptions& options) {
  options.run =
      options.output.empty() ? claim_first_free("runs", options.load().name + "-advice") : options.output;
  if (is_run_folder(options.run)) return;  // of the same command, stopped behind it
  make_folders(options.run);
  run_apart(
      "advise", options.run.string(), "short run", [&] { return train_shortly(options); },
      options.json ? options.run / "short-run.log" : fs::path());
}

// ------------------------------------------------------------------ --branches

BranchRequest request_of(const AdviseOptions& options, const ObservedRun& run, int64_t start) {
  return {.recipe = run.recipe,
          .effective = run.plan.effective_batch,
          .micro_batch = run.plan.micro_batch,
          .lr = run.plan.lr.scaled,
          .dataset_size = run.dataset_size,
          .start = start,
          .factors = options.factors,
          .samples = options.samples};
}

// The newest checkpoint with enough of the schedule behind it, or the one that is asked for.
struct Start {
  BranchPoint point = {};
  BranchPlan plan = {};
};

Start start_at(const AdviseOptions& options, const ObservedRun& run, int64_t update) {
  Start start{.point = {.run = run.folder, .update = update, .start = samples_at(run.folder, update)}};
  start.plan = plan_branches(request_of(options, run, start.point.start));
  start.point.samples = start.plan.samples;
  return start;
}

Start choose_start(const AdviseOptions& options, const ObservedRun& run) {
  if (options.checkpoint != "auto")
    return start_at(options, run, open_trained_run({run.folder, options.checkpoint}, {}).update);
  const std::vector<int64_t> updates = CheckpointFolder(run.folder / "checkpoints").updates();
  for (size_t i = updates.size(); i-- > 1;) {
    try {
      return start_at(options, run, updates[i]);
    } catch (const Error& error) {
      if (error.where() != "--branches") throw;
    }
  }
  return start_at(options, run, updates.front());
}

CompareOptions comparison_of(const AdviseOptions& options, const Start& start) {
  CompareOptions compare{
      .recipes = {}, .seeds = options.seeds, .figure = "loss", .folder = options.folder() / "branches"};
  size_t own = 0;
  for (const Branch& branch : start.plan.branches) {
    if (branch.factor == 1) own = compare.recipes.size();
    compare.recipes.push_back({branch.label, branch.recipe, start.point});
  }
  for (size_t i = 0; i < compare.recipes.size(); ++i) {
    if (i != own) compare.pairs.emplace_back(own, i);
  }
  return compare;
}

std::vector<BranchLosses> losses_of(const AdviseOptions& options, const Start& start,
                                    const Comparison& found) {
  std::vector<BranchLosses> losses;
  for (const Branch& branch : start.plan.branches) {
    BranchLosses& of_branch = losses.emplace_back(BranchLosses{branch.factor, branch.effective});
    of_branch.training.assign(static_cast<size_t>(options.seeds), std::numeric_limits<double>::quiet_NaN());
    for (const RunOutcome& run : found.runs) {
      if (run.recipe != branch.label) continue;
      if (run.code == static_cast<int>(ExitCode::kDiverged)) ++of_branch.diverged;
      if (!run.failure.empty()) continue;
      const fs::path folder = options.folder() / "branches" / "runs" / cat(branch.label, "-seed", run.seed);
      of_branch.training.at(static_cast<size_t>(run.seed - 1)) =
          smoothed_loss(folder / "metrics.jsonl", start.point.end() - start.plan.compared);
    }
  }
  return losses;
}

// Of what all branches with the run's own batch ended with, if none came to its end.
void refuse_without_reference(const Comparison& found, const std::vector<BranchLosses>& losses) {
  const auto own = std::ranges::find(losses, 1.0, &BranchLosses::factor);
  if (own->failed() < std::ssize(own->training)) return;
  for (const RunOutcome& run : found.runs) {
    if (run.recipe != cat("E", own->effective) || run.failure.empty()) continue;
    throw Error(exit_code_of(run.code), "--branches",
                cat("every branch with the run's own batch failed: ", first_line(run.failure)),
                "their logs are in the folder's branches/runs; advise without --branches has the rest");
  }
}

Verification verify_batch(const AdviseOptions& options, const ObservedRun& run) {
  if (run.recipe.batch.changes())
    throw Error(
        ExitCode::kUsage, "--branches",
        "compares batches that stay, and the batch of this run changes (batch.schedule or batch.adapt)",
        "leave it out, or take a run of one batch");
  const Start start = choose_start(options, run);
  CompareOptions compare = comparison_of(options, start);
  check_comparison(compare);
  LiveText live(stderr);
  if (options.talks()) {
    const bool rounded = options.samples > 0 && options.samples != start.plan.samples;
    log::info("advise", cat("branches of ", format_count(start.plan.samples), " samples",
                            rounded ? ", whole updates of every batch," : "", " from update ",
                            start.point.update, " in ", compare.folder.string()));
    compare.on_progress = [&](const StudyProgress& progress) {
      if (live.due())
        live.show(cat("branch ", progress.done + 1, " of ", progress.total, " · ", progress.running,
                      left_text(progress)));
    };
    compare.on_outcome = [&](const RunOutcome& outcome, bool kept) {
      live.clear();
      log::info("advise",
                cat(outcome.recipe, ", seed ", outcome.seed, ": ",
                    outcome.failure.empty() ? "done" : first_line(outcome.failure), kept ? " (kept)" : ""));
    };
  }
  const Comparison found = autotrain::compare(compare);
  live.clear();
  Verification verification{.update = start.point.update,
                            .samples = start.plan.samples,
                            .seeds = options.seeds,
                            .margin = options.margin,
                            .folder = compare.folder};
  const std::vector<BranchLosses> losses = losses_of(options, start, found);
  refuse_without_reference(found, losses);
  judge_branches(verification, losses);
  return verification;
}

// ------------------------------------------------------------------ the command

std::vector<SpeedPoint> speeds_of(const AdviseOptions& options, const ObservedRun& run) {
  if (options.seconds == 0) return recorded_speeds(run);
  Recipe recipe = run.recipe;
  recipe.execution.precision = run.plan.precision;
  recipe.execution.memory_format = run.plan.memory_format;
  const std::vector<int64_t> sizes = micro_batches_of(run);
  if (options.talks())
    log::info("advise", cat("measuring the speed of ", sizes.size(), " micro-batches for ",
                            format_seconds(options.seconds)));
  LiveText live(stderr);
  std::vector<SpeedPoint> speeds =
      measure_speeds(std::move(recipe), sizes, options.seconds, [&](int64_t measured) {
        if (options.talks() && live.due()) live.show(cat("measuring speeds: ", measured));
      });
  live.clear();
  return speeds.empty() ? recorded_speeds(run) : speeds;
}

std::string change_text(const Advice& advice) {
  if (advice.lines.empty()) return "";
  const BatchPlan& plan = advice.run.plan;
  const int64_t to = advice.batch.rows[advice.batch.advised].effective;
  std::string text = "\nwhat goes with the change\n" + yaml_of(advice.lines);
  for (const std::string& remark : remarks_on(advice.run.recipe, {plan.effective_batch, to, plan.lr.scaled}))
    text += remark + "\n";
  return text;
}

std::string text_of(const Advice& advice) {
  std::string text;
  for (const std::string& sentence : sentences_of(advice)) text += sentence + "\n";
  for (const page::Table& each : tables_of(advice))
    text += cat("\n", each.title, "\n", TextTable(each.header, each.rows).text());
  return text + change_text(advice);
}

// The advice is on the run as it was made; its data may lie elsewhere by now.
void refuse_other_recipe(const std::string& setting) {
  if (setting.starts_with("data.")) return;
  throw Error(ExitCode::kUsage, "--set " + setting, "would be another run than the one that --run names",
              "set data.… alone, where the data lie elsewhere now, or give --config for a short run with it");
}

void check(const CLI::App& app, const AdviseOptions& options) {
  if (options.run.empty() == options.config.empty())
    throw Error(ExitCode::kUsage, "advise",
                options.run.empty() ? "names no run" : "names both a run and a recipe",
                "autotrain advise --run runs/a, or --config R.yaml for a short run first");
  if (options.config.empty()) {
    refuse_without("--config", app, {"--updates", "--fresh-plan"});
    for (const std::string& setting : options.overrides) refuse_other_recipe(setting);
  }
  if (!options.branches)
    refuse_without("--branches", app, {"--checkpoint", "--factor", "--seeds", "--samples", "--margin"});
}

ExitCode run_advise(AdviseOptions& options) {
  refuse_several_ranks();
  install_signal_handlers();
  log::set_sink(log::terminal_sink(), options.log_level());
  if (!options.config.empty()) make_short_run(options);
  const ObservedRun run =
      observe_run(options.run, options.config.empty() ? options.overrides : std::vector<std::string>{});
  std::optional<Verification> verification;
  if (options.branches)
    verification = saying_how_to_go_on(options.folder(), [&] { return verify_batch(options, run); });
  Advice advice = advise(run, speeds_of(options, run));
  if (verification) heed(advice, *std::move(verification));
  write_advice(advice, options.folder());
  const std::string text = options.talks() ? text_of(advice) + "\n" : sentences_of(advice).front() + "\n";
  print_study(options, advice_to_json(advice), text + (options.folder() / "advice.html").string() + "\n",
              options.folder());
  return ExitCode::kDone;
}

std::function<ExitCode()> declare_advise(CLI::App& app) {
  const auto options = std::make_shared<AdviseOptions>();
  app.add_option("--run", options->run, "The folder of a run that was trained")->type_name("DIR");
  options->RecipeOptions::declare(app);
  options->PrintOptions::declare(app);
  options->OutputOption::declare(app, "Folder of advice.json, advice.html and branches; default: the run's");
  app.add_option("--updates", options->updates, "Updates of the short run of --config")
      ->check(CLI::Range(int64_t{16}, int64_t{1} << 40))
      ->capture_default_str();
  app.add_option("--seconds", options->seconds, "Time to measure speeds; 0: take those that the run left")
      ->check(number_from(0, 3600))
      ->capture_default_str();
  app.add_flag("--branches", options->branches,
               "Also train branches from a checkpoint with other batches, and compare at equal samples");
  app.add_flag_callback("--verify",
                        [] {
                          throw Error(ExitCode::kUsage, "--verify", "is called --branches now",
                                      "autotrain advise --branches …");
                        })
      ->group("");
  app.add_option(
         "--checkpoint", options->checkpoint,
         "Of --branches: auto (the newest with enough of the schedule left), newest, best, or an update")
      ->capture_default_str()
      ->type_name("WHICH");
  app.add_option("--factor", options->factors, "Of --branches: their batches, as multiples of the run's")
      ->delimiter(',')
      ->check(number_from(1e-6, 1e6))
      ->default_str("0.5,1,2,4")
      ->type_name("X,X,…");
  app.add_option("--seeds", options->seeds, "Of --branches: branches of each batch, seeds 1 to this")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app.add_option("--samples", options->samples,
                 cat("Of --branches: samples of each branch; default: ", kBranchUpdates,
                     " updates of the largest batch, or what the schedule has left of them, at least 8"))
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 53));
  app.add_option("--margin", options->margin,
                 "Of --branches: a loss that is larger by less than this part is not worse")
      ->check(number_from(0, 1))
      ->capture_default_str();
  return [options, &app] {
    check(app, *options);
    return run_advise(*options);
  };
}

constexpr const char* kAdviseExamples = R"(
Examples:
  autotrain advise --run runs/a
      whether the run's effective batch should be larger or smaller, with the
      reason, and what goes with it
  autotrain advise --config R.yaml
      the same after a short run of 128 updates
  autotrain advise --run runs/a --branches --seeds 5
      also measure it: branches from a checkpoint with half, twice and four
      times the batch
)";

}  // namespace

extern const Command kAdvise;
const Command kAdvise = {"advise", "Say which effective batch fits, is fast and learns", kAdviseExamples,
                         declare_advise};

}  // namespace autotrain
