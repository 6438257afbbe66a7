#include "compare/run_order.h"

#include <algorithm>

#include "autotrain/log.h"
#include "autotrain/trainer.h"
#include "base/files.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "base/units.h"
#include "base/version.h"
#include "checkpoint/checkpoint.h"
#include "comm/launch.h"
#include "compare/comparison.h"
#include "optim/lr_rules.h"
#include "plan/plan_json.h"
#include "recipe/compare.h"
#include "report/figures_json.h"
#include "state/catalog.h"
#include "study/evaluated_checkpoint.h"
#include "study/recipe_files.h"
#include "study/run_share.h"
#include "study/sharpness.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

// Makes a file name of a label: characters that a file name should not hold become '-'.
std::string file_name(std::string name) {
  for (char& c : name) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!plain && c != '_' && c != '.') c = '-';
  }
  return name;
}

// For each recipe, another one: labels may differ in what a file name does not keep.
std::vector<std::string> file_names(const std::vector<NamedRecipe>& recipes) {
  std::vector<std::string> names;
  for (const NamedRecipe& named : recipes) {
    const std::string plain = file_name(named.label);
    std::string name = plain;
    for (int n = 2; std::ranges::count(names, name) > 0; ++n) name = cat(plain, "-", n);
    names.push_back(name);
  }
  return names;
}

// A run that has a checkpoint goes on with what `auto` meant when it was begun, for a resume refuses another
// effective batch.
void adopt_begun(Recipe& recipe, const fs::path& run) {
  const Recipe begun = load_recipe(run / "recipe.yaml", {});
  if (!recipe.batch.effective) recipe.batch.effective = begun.batch.effective;
  recipe.execution.micro_batch = begun.execution.micro_batch;
  recipe.execution.recompute = begun.execution.recompute;
}

// The micro-batch and the effective batch that the recipe's search found, if it found any.
void adopt_plan(Recipe& recipe, const fs::path& result) {
  if (!fs::exists(result)) return;
  const Json found = Json::parse(read_file(result)).at("value");
  if (found.is_null()) return;
  const BatchPlan plan = plan_from_json(found.at("plan"));
  if (!recipe.batch.changes()) recipe.batch.effective = plan.effective_batch;
  recipe.execution.micro_batch = plan.micro_batch;
  recipe.execution.recompute = plan.recompute ? Recompute::kOn : Recompute::kOff;
}

// Whether this process keeps what comes of a run, as the first of its ranks does.
bool keeps_results() {
  return detect_launch(process_environment()).place.rank == 0;
}

// In a process of its own, so that what a search leaves in memory counts for no run.
Json search(const Recipe& recipe) {
  install_signal_handlers();
  Trainer trainer = Trainer::from_recipe(recipe, {.write_files = false});
  const BatchPlan plan = trainer.plan();
  return {{"plan", plan_to_json(plan)}, {"figure_kinds", kinds_to_json(trainer.figure_kinds())}};
}

// Lets a run begin at its branch point, with nothing of an earlier attempt.
void begin(const RunOrder& order, const Recipe& recipe) {
  fs::remove_all(order.folder);
  begin_branch(*order.from, *recipe.batch.effective, order.folder);
}

Trainer trainer_of(const RunOrder& order, const Recipe& recipe) {
  Trainer trainer = Trainer::from_recipe(
      recipe, {.output = order.folder, .resume = true, .allow_change = order.from.has_value()});
  if (order.from) {
    trainer.on_update([end = order.from->end()](const UpdateRecord& record) {
      return record.samples < end ? Flow::kContinue : Flow::kStop;
    });
  }
  return trainer;
}

// Shows what the log says, and keeps its warnings: they belong beside the figures.
std::vector<std::string>& keep_warnings() {
  static std::vector<std::string> warnings;
  log::set_sink([show = log::terminal_sink()](const log::Record& record) {
    show(record);
    if (record.level != log::Level::kWarning) return;
    std::string text(record.text);
    if (std::ranges::find(warnings, text) == warnings.end()) warnings.push_back(std::move(text));
  });
  return warnings;
}

// In the run's own process.
Json train(const RunOrder& order) {
  install_signal_handlers();
  const std::vector<std::string>& warnings = keep_warnings();
  Recipe recipe = order.recipe;
  if (order.from && keeps_results()) begin(order, recipe);
  if (order.from || CheckpointFolder(order.folder / "checkpoints").updates().empty()) {
    adopt_plan(recipe, order.found);
  } else {
    adopt_begun(recipe, order.folder);
  }
  RunOutcome outcome{.recipe = order.label, .seed = recipe.seed, .share = order.share};
  BatchPlan plan;
  Summary summary;
  {
    Trainer trainer = trainer_of(order, recipe);
    if (order.share < 1) pause_at(trainer, recipe.stop, order.share);
    summary = trainer.fit();
    if (keeps_results() && order.share < 1 && summary.stopped_by == StopReason::kCallback)
      write_file(order.folder / kPausedMark, "paused by a study, which may go on with it\n");
    plan = trainer.plan();
  }
  stop_if_interrupted("study", "stopped by a signal");
  if (!keeps_results()) return nullptr;
  outcome.plan = plan_in_brief(plan);
  outcome.plan["program"] = version();
  outcome.samples_per_second = summary.samples_per_second;
  outcome.peak_bytes = summary.peak_bytes;
  outcome.curve = read_curve(order.folder / "metrics.jsonl");
  outcome.losses = read_loss_sums(order.folder / "metrics.jsonl");
  outcome.figure_kinds = summary.figure_kinds;
  outcome.warnings = warnings;
  const TrainedRun trained = on_training_set(recipe, plan, order.folder, summary.updates);
  if (order.training_set) outcome.training_set = evaluate_checkpoint(trained).figures;
  if (order.sharpness) outcome.sharpness = measure_sharpness(trained);
  return outcome_to_json(outcome);
}

// What defines a search. A branch's point comes first, because recipes of branches follow it, and a person
// changed that. One rank is what there was before a comparison could have several.
Json search_definition(const RunOrder& order) {
  Json definition;
  if (order.from) {
    definition["branch"] = {{"run", fs::weakly_canonical(order.from->run).string()},
                            {"checkpoint", order.from->update},
                            {"samples", order.from->samples}};
  }
  definition["recipe"] = values_of(order.recipe, catalog());
  if (order.ranks > 1) definition["ranks"] = order.ranks;
  definition["files"] = order.files;
  return definition;
}

Json run_definition(const RunOrder& order) {
  Json definition = search_definition(order);
  definition["training_set"] = order.training_set;
  if (order.share < 1) definition["share"] = order.share;
  if (order.sharpness) definition["sharpness"] = true;
  return definition;
}

StudyRun run_of(const RunOrder& order) {
  return {.name = order.name,
          .variant = order.label,
          .definition = run_definition(order),
          .work = [&order] { return train(order); },
          .label = cat(order.label, ", seed ", order.recipe.seed,
                       order.share < 1 ? cat(", to ", format_percent(order.share, 0), " of its run") : ""),
          .ranks = order.ranks,
          .size = order.work};
}

std::vector<StudyRun> searches_of(const std::vector<RunOrder>& orders) {
  std::vector<StudyRun> runs;
  for (const RunOrder& order : orders) {
    if (order.recipe.seed != orders.front().recipe.seed || order.rung > 0 || !order.twin.empty()) continue;
    runs.push_back({.name = order.search,
                    .variant = "",
                    .definition = search_definition(order),
                    .work = [&order] { return search(order.recipe); },
                    .label = "search of " + order.label,
                    .ranks = order.ranks});
  }
  return runs;
}

}  // namespace

namespace {

// The recipe without what does nothing to a run: a rule that leaves the learning rate as it stands.
Recipe as_computed(Recipe recipe) {
  if (!recipe.batch.effective || recipe.batch.changes()) return recipe;
  const double ratio =
      static_cast<double>(*recipe.batch.effective) / static_cast<double>(recipe.optimizer.reference_batch);
  if (find_lr_rule(recipe.batch.lr_rule).factor(ratio) == 1)
    recipe.batch.lr_rule = lr_rule_for(LrRule::For::kAny).spec.name;
  return recipe;
}

// Grids have points that compute the same, as with two rules at the batch that both refer to.
void find_twins(std::vector<RunOrder>& orders) {
  std::vector<Recipe> computed;
  for (RunOrder& order : orders) {
    computed.push_back(as_computed(order.recipe));
    for (size_t i = 0; i + 1 < computed.size() && !order.from && order.twin.empty(); ++i) {
      const RunOrder& other = orders[i];
      if (!other.from && other.twin.empty() && other.rung == order.rung && other.recipe != order.recipe &&
          computed[i] == computed.back())
        order.twin = other.name;
    }
  }
}

}  // namespace

std::vector<RunOrder> orders_of(const CompareOptions& options, const Halving& halving) {
  const std::vector<std::string> names = file_names(options.recipes);
  RecipeFiles known;
  std::vector<std::map<std::string, std::string>> files;  // by recipe
  for (const NamedRecipe& named : options.recipes) files.push_back(known.of(named.recipe));
  std::vector<RunOrder> orders;
  for (size_t rung = 0; rung < halving.rungs(); ++rung) {
    for (const auto& [round, i] : interleaved(static_cast<size_t>(options.seeds), options.recipes.size())) {
      const NamedRecipe& named = options.recipes[i];
      RunOrder order{.name = "",
                     .label = named.label,
                     .recipe = named.recipe,
                     .from = named.from,
                     .point = i,
                     .rung = rung,
                     .share = halving.share(rung),
                     .work = halving.work(rung),
                     .files = files[i],
                     .training_set = options.training_set && rung + 1 == halving.rungs(),
                     .sharpness = options.sharpness && rung + 1 == halving.rungs(),
                     .ranks = options.ranks};
      order.recipe.data.test.reset();  // which no run reads before one is chosen
      order.recipe.seed = options.first_seed + static_cast<int64_t>(round);
      const std::string run = cat(names[i], "-seed", order.recipe.seed);
      order.name = order.share < 1 ? cat(run, "-rung", rung + 1) : run;
      order.folder = options.folder / "runs" / run;
      order.search = names[i] + "-search";
      order.found = study_result_file(options.folder, order.search);
      orders.push_back(std::move(order));
    }
  }
  find_twins(orders);
  return orders;
}

Json plan_in_brief(const BatchPlan& plan) {
  return {{"device", plan.device},
          {"device_name", plan.device_name},
          {"precision", to_string(plan.precision)},
          {"effective_batch", plan.effective_batch},
          {"micro_batch", plan.micro_batch},
          {"window", plan.window},
          {"lr", plan.lr.scaled}};
}

std::vector<StudyRun> study_runs_of(const std::vector<RunOrder>& orders) {
  std::vector<StudyRun> runs = searches_of(orders);
  for (const RunOrder& order : orders) {
    if (order.twin.empty()) runs.push_back(run_of(order));
  }
  return runs;
}

}  // namespace autotrain
