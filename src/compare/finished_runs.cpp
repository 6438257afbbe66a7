#include "compare/finished_runs.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "autotrain/error.h"
#include "base/command_line.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"
#include "base/version.h"
#include "checkpoint/checkpoint.h"
#include "compare/compare.h"
#include "compare/fairness.h"
#include "compare/run_order.h"
#include "plan/plan_json.h"
#include "recipe/compare.h"
#include "recipe/load.h"
#include "report/figures_json.h"
#include "report/metrics_file.h"
#include "report/report_enums.h"
#include "state/catalog.h"
#include "state/identity.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kNotFinished = "is not finished";

struct FinishedRun {
  fs::path folder;
  Recipe recipe;
  RunOutcome outcome;
  Identity identity = {};  // by its newest checkpoint; empty: it has none that says
};

bool is_run(const fs::path& folder) {
  return fs::exists(folder / "recipe.yaml");
}

// The runs below the folders, in the order of their names.
std::vector<fs::path> run_folders(const std::vector<fs::path>& given) {
  std::vector<fs::path> runs;
  for (const fs::path& folder : given) {
    if (is_run(folder)) {
      runs.push_back(folder);
      continue;
    }
    const fs::path inside = fs::exists(folder / "runs") ? folder / "runs" : folder;  // of a comparison
    std::vector<fs::path> found;
    for (const fs::directory_entry& entry : fs::directory_iterator(inside)) {
      if (is_run(entry.path())) found.push_back(entry.path());
    }
    if (found.empty())
      throw Error(ExitCode::kMissingFile, folder.string(), "holds no run",
                  "name folders of runs that have ended");
    std::ranges::sort(found);
    runs.insert(runs.end(), found.begin(), found.end());
  }
  return runs;
}

[[noreturn]] void fail_file(const fs::path& path, const std::string& what) {
  throw Error(ExitCode::kBadData, path.string(), what,
              "leave the run out, copy it again, or use the version that made it");
}

Json json_of_file(const fs::path& path) {
  const std::string text = read_file(path);
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    fail_file(path, trim(text).empty()    ? "is empty"
                    : json.is_discarded() ? "is damaged or cut short"
                                          : "is of another kind: no JSON object");
  return json;
}

// What `read` makes of a file.
template <class Read>
void read_from(const fs::path& path, Read read) {
  try {
    read(json_of_file(path));
  } catch (const Json::exception&) {
    fail_file(path, "is damaged or of another version");
  }
}

// What happened to a run that a run without it would not have done: memory that ran out, updates that were
// skipped, states that were taken up again.
std::vector<std::string> events_of(const fs::path& metrics) {
  std::vector<std::string> events;
  for_each_row(metrics, [&](const Json& row) {
    if (row.value("kind", "") != "event" || row.value("event", "") == "batch")
      return;  // as the recipe has it
    const std::string name = row.value("event", ""), detail = row.value("detail", "");
    events.push_back(
        cat("update ", row.value("update", int64_t{0}), ": ", name, detail.empty() ? "" : ": ", detail));
  });
  return events;
}

// How much of its run one made that completed. A study may have paused it, as halving and races do.
double share_made(const fs::path& folder, const StopRecipe& stop, const Json& summary) {
  if (summary.value("stopped_by", "") != to_string(StopReason::kCallback) ||
      !fs::exists(folder / kPausedMark))
    return 1;
  return share_of_run(stop, {.update = summary.at("updates"),
                             .samples = summary.at("samples"),
                             .epoch = number_or_nan(summary.at("epochs"))});
}

// Fills what a run that ended left of itself.
void read_end(const fs::path& folder, const Json& summary, RunOutcome& outcome) {
  outcome.samples_per_second = number_or_nan(summary.at("samples_per_second"));
  outcome.peak_bytes = summary.at("peak_bytes");
  outcome.figure_kinds = kinds_from_json(summary.at("figure_kinds"));
  const fs::path metrics = folder / "metrics.jsonl";
  try {
    outcome.curve = read_curve(metrics);
    outcome.losses = read_loss_sums(metrics);
    outcome.warnings = events_of(metrics);
  } catch (const Json::exception&) {
    fail_file(metrics, "is damaged or of another version");
  }
  const Json final = summary.value("final", Json::object());
  if (outcome.curve.empty() && final.is_object() && !final.empty())
    fail_file(metrics, "has no evaluation, and summary.json has one's figures");
}

Identity identity_of_run(const fs::path& folder) {
  const CheckpointFolder checkpoints(folder / "checkpoints");
  const std::vector<int64_t> updates = checkpoints.updates();
  if (updates.empty()) return {};
  Identity identity;
  read_from(checkpoints.path_of(updates.back()) / "state.json",
            [&](const Json& state) { identity = state.value("identity", Identity()); });
  return identity;
}

FinishedRun read_run(const fs::path& folder) {
  FinishedRun run{.folder = folder, .recipe = load_recipe(folder / "recipe.yaml", {}), .outcome = {}};
  run.outcome.seed = run.recipe.seed;
  const fs::path plan = folder / "plan.json", summary = folder / "summary.json";
  if (fs::exists(plan)) {
    read_from(plan, [&](const Json& json) {
      const BatchPlan made = plan_from_json(json);
      run.outcome.plan = plan_in_brief(made);
      // What `auto` came to decides what was learned.
      BatchRecipe& batch = run.recipe.batch;
      if (!batch.effective && !batch.changes()) batch.effective = made.effective_batch;
    });
  }
  run.identity = identity_of_run(folder);
  if (const auto program = run.identity.find("autotrain");
      program != run.identity.end() && run.outcome.plan.is_object())
    run.outcome.plan["program"] = program->second;
  run.outcome.unfinished = kNotFinished;
  if (!fs::exists(summary)) return run;
  read_from(summary, [&](const Json& json) {
    const std::string status = json.at("status");
    if (status == to_string(RunStatus::kInterrupted)) return;  // a signal stopped it
    run.outcome.unfinished.clear();
    if (status == to_string(RunStatus::kCompleted)) {
      run.outcome.share = share_made(folder, run.recipe.stop, json);
      return read_end(folder, json, run.outcome);
    }
    const Json error = json.value("error", Json());
    run.outcome.failure = error.is_string() ? error.get<std::string>() : status;
    run.outcome.code = json.value("exit_code", 0);
  });
  return run;
}

// Whether two runs are of one recipe: nothing but the seed differs of what decides what is learned, or of how
// finely it is computed.
bool alike(const Recipe& a, const Recipe& b) {
  return std::ranges::none_of(differing_keys(a, b, catalog()), [](const KeyDifference& difference) {
    return difference.path != "seed" &&
           (decides_learning(difference.decides) || difference.path == "execution.precision");
  });
}

// What else two recipes that are alike differ in, in words: how they are executed.
std::string told_differences(const Recipe& a, const Recipe& b) {
  std::vector<std::string> keys;
  for (const KeyDifference& difference : differing_keys(a, b, catalog())) keys.push_back(difference.path);
  if (keys.empty()) return "";
  return cat("; ", join(keys, ", "), keys.size() == 1 ? " differs, which decides" : " differ, which decide",
             " no more than memory and speed");
}

// Gives each run the label of its recipe. @returns the recipes, each once.
std::vector<NamedRecipe> label_runs(std::vector<FinishedRun>& runs) {
  std::vector<NamedRecipe> recipes;
  for (FinishedRun& run : runs) {
    const auto known = std::ranges::find_if(
        recipes, [&](const NamedRecipe& named) { return alike(named.recipe, run.recipe); });
    if (known != recipes.end()) {
      run.outcome.recipe = known->label;
      continue;
    }
    std::string label = run.recipe.name;
    for (int n = 2; std::ranges::find(recipes, label, &NamedRecipe::label) != recipes.end(); ++n)
      label = cat(run.recipe.name, "-", n);
    run.outcome.recipe = label;
    recipes.push_back({label, run.recipe});
  }
  return recipes;
}

void refuse_twins(const std::vector<FinishedRun>& runs) {
  for (size_t b = 0; b < runs.size(); ++b) {
    for (size_t a = 0; a < b; ++a) {
      if (runs[a].outcome.recipe != runs[b].outcome.recipe || runs[a].outcome.seed != runs[b].outcome.seed)
        continue;
      throw Error(ExitCode::kUsage, runs[b].folder.string(),
                  cat("has the recipe and the seed ", runs[b].outcome.seed, " of ", runs[a].folder.string(),
                      ": the two are one measurement", told_differences(runs[a].recipe, runs[b].recipe)),
                  "leave one of them out");
    }
  }
}

// Runs that name the same data, or begin with the same file of weights, must have read the same bytes.
void refuse_other_bytes(const std::vector<FinishedRun>& runs) {
  for (size_t b = 0; b < runs.size(); ++b) {
    for (size_t a = 0; a < b; ++a) {
      if (runs[a].recipe.weights.file == runs[b].recipe.weights.file &&
          has_other_initial_weights(runs[a].identity, runs[b].identity))
        throw Error(ExitCode::kBadData, runs[b].folder.string(),
                    cat("began with other weights than ", runs[a].folder.string(), ": ",
                        *runs[b].recipe.weights.file, " changed between the two"),
                    "compare runs that read the same bytes");
      if (runs[a].recipe.data != runs[b].recipe.data) continue;
      const std::vector<std::string> changes = changes_of_data(runs[a].identity, runs[b].identity);
      if (changes.empty()) continue;
      throw Error(ExitCode::kBadData, runs[b].folder.string(),
                  cat("was trained on other data than ", runs[a].folder.string(), ": ", changes.front()),
                  "compare runs that read the same bytes");
    }
  }
}

bool is_paused(const FinishedRun& run) {
  return run.outcome.failure.empty() && run.outcome.unfinished.empty() && run.outcome.share < 1;
}

// Runs that were paused say nothing of their ends. Where others of their recipe have ended they count as
// missing: those that are left may be the better ones. @returns a sentence; "": none was paused.
std::string set_paused_apart(std::vector<FinishedRun>& runs) {
  std::set<std::string> have_ends;
  for (const FinishedRun& run : runs) {
    if (run.outcome.failure.empty() && run.outcome.unfinished.empty() && run.outcome.share >= 1)
      have_ends.insert(run.outcome.recipe);
  }
  std::vector<std::string> paused;
  for (FinishedRun& run : runs) {
    if (!is_paused(run)) continue;
    const std::string place = cat("at ", format_percent(run.outcome.share, 0), " of its run");
    paused.push_back(cat(run.folder.filename().string(), " ", place));
    if (have_ends.contains(run.outcome.recipe)) run.outcome.unfinished = cat("was paused by a study ", place);
  }
  if (paused.empty()) return "";
  return cat(paused.size(), " of ", runs.size(), paused.size() == 1 ? " runs was" : " runs were",
             " paused before the end, as halving and races do, and nothing is said of ",
             paused.size() == 1 ? "it" : "them", " (", some_of(paused),
             "); autotrain train --resume goes on with a run");
}

// How many runs have not ended, which says nothing against their recipes; "": all have.
std::string told_unfinished(const std::vector<FinishedRun>& runs) {
  std::vector<std::string> names;
  for (const FinishedRun& run : runs) {
    if (run.outcome.unfinished == kNotFinished) names.push_back(run.folder.filename().string());
  }
  if (names.empty()) return "";
  return cat(names.size(), " of ", runs.size(),
             names.size() == 1 ? " runs has not ended: it is under way, or was stopped ("
                               : " runs have not ended: they are under way, or were stopped (",
             some_of(names), "); autotrain train --resume goes on with a run");
}

// Whether a folder's study was stopped before its last run: its verdicts are still to come.
bool is_stopped_study(const fs::path& folder) {
  const Json report = read_json(folder / "compare.json");
  return report.is_object() && report.value("so_far", Json()) == Json(true);
}

bool tell_their_data(const std::vector<FinishedRun>& runs) {
  return std::ranges::none_of(runs, [](const FinishedRun& run) { return run.identity.empty(); });
}

FigureKinds kinds_of(const std::vector<FinishedRun>& runs) {
  for (const FinishedRun& run : runs) {
    if (!run.outcome.figure_kinds.empty()) return run.outcome.figure_kinds;
  }
  throw Error(ExitCode::kUsage, "compare", "none of these runs has ended and was evaluated",
              "go on with them: autotrain train --resume FOLDER");
}

bool is_lower_better(const FigureKinds& kinds, const std::string& figure, const char* option) {
  return measured_kind(kinds, figure, option, "these runs").better == Better::kLower;
}

}  // namespace

Comparison compare_finished_runs(const FinishedRunsOptions& options) {
  std::vector<FinishedRun> runs;
  for (const fs::path& folder : run_folders(options.folders)) runs.push_back(read_run(folder));
  const std::vector<NamedRecipe> recipes = label_runs(runs);
  refuse_twins(runs);
  refuse_other_bytes(runs);
  const FigureKinds kinds = kinds_of(runs);
  ComparisonTerms terms{.machine = cat(runs.size(), " runs that were there")};
  terms.figure = !options.figure.empty() ? options.figure
                 : options.target        ? options.target->figure
                                         : recipes.front().recipe.evaluation.monitor;
  terms.lower_is_better = is_lower_better(kinds, terms.figure, "--figure");
  terms.target = options.target;
  terms.paired = options.paired;
  if (options.margin) terms.margin = margin_in(*options.margin, kinds.at(terms.figure), terms.figure);
  if (terms.target) terms.target->at_most = is_lower_better(kinds, terms.target->figure, "--target");
  std::set<int64_t> seeds;
  for (const FinishedRun& run : runs) seeds.insert(run.outcome.seed);
  terms.seeds.assign(seeds.begin(), seeds.end());
  for (const NamedRecipe& named : recipes) terms.recipes.push_back(named.label);
  std::vector<size_t> all(recipes.size());
  std::iota(all.begin(), all.end(), size_t{0});
  terms.pairs = all_pairs(all);
  terms.differing_keys = differing_keys(recipes);
  terms.warnings = unfair_because(terms.differing_keys);
  if (std::string paused = set_paused_apart(runs); !paused.empty())
    terms.warnings.push_back(std::move(paused));
  if (std::string open = told_unfinished(runs); !open.empty()) terms.warnings.push_back(std::move(open));
  terms.so_far = std::ranges::any_of(options.folders, is_stopped_study);
  if (!tell_their_data(runs))
    terms.warnings.emplace_back(
        "some runs have no checkpoint, so nothing tells whether the files of their data had the same bytes");
  terms.provenance = {.command = options.command, .date = utc_date(), .program = version()};
  terms.equal_losses = losses_are_alike(terms.differing_keys);
  std::vector<RunOutcome> outcomes;
  for (FinishedRun& run : runs) outcomes.push_back(std::move(run.outcome));
  return analyse(std::move(terms), std::move(outcomes));
}

}  // namespace autotrain
