#include "compare/compare.h"

#include <algorithm>
#include <limits>
#include <set>

#include "autotrain/error.h"
#include "autotrain/trainer.h"
#include "base/files.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "base/units.h"
#include "checkpoint/checkpoint.h"
#include "comm/launch.h"
#include "compare/compare_page.h"
#include "measure/machine.h"
#include "plan/plan_json.h"
#include "recipe/compare.h"
#include "recipe/reader.h"
#include "report/figures_json.h"
#include "study/evaluated_checkpoint.h"
#include "study/run_share.h"
#include "study/sharpness.h"
#include "trainer/catalog.h"

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
}

// The micro-batch and the effective batch that the recipe's search found, if it found any.
void adopt_plan(Recipe& recipe, const fs::path& result) {
  if (!fs::exists(result)) return;
  const Json found = Json::parse(read_file(result)).at("value");
  if (found.is_null()) return;
  const BatchPlan plan = plan_from_json(found.at("plan"));
  if (!recipe.batch.changes()) recipe.batch.effective = plan.effective_batch;
  recipe.execution.micro_batch = plan.micro_batch;
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

// A run, or with halving one of its rungs.
struct RunOrder {
  std::string name;  // of its result
  std::string label;
  Recipe recipe;  // with its seed
  std::optional<BranchPoint> from = {};
  size_t point = 0;  // the number of the recipe
  size_t rung = 0;
  double share = 1;  // of the whole run, when it is done
  double work = 1;   // what it trains, likewise
  fs::path folder = {};
  std::string search = {};  // name of the recipe's search
  fs::path found = {};      // its result
  bool training_set = false;
  bool sharpness = false;
  int64_t ranks = 1;
};

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

// In the run's own process.
Json train(const RunOrder& order) {
  install_signal_handlers();
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
    plan = trainer.plan();
  }
  stop_if_interrupted("study", "stopped by a signal");
  if (!keeps_results()) return nullptr;
  outcome.plan = plan_in_brief(plan);
  outcome.samples_per_second = summary.samples_per_second;
  outcome.peak_bytes = summary.peak_bytes;
  outcome.curve = read_curve(order.folder / "metrics.jsonl");
  outcome.losses = read_loss_sums(order.folder / "metrics.jsonl");
  outcome.figure_kinds = summary.figure_kinds;
  const TrainedRun trained = on_training_set(recipe, plan, order.folder, summary.updates);
  if (order.training_set) outcome.training_set = evaluate_checkpoint(trained).figures;
  if (order.sharpness) outcome.sharpness = measure_sharpness(trained);
  return outcome_to_json(outcome);
}

Halving halving_of(const CompareOptions& options) {
  return Halving(options.recipes.size(), static_cast<size_t>(options.seeds),
                 options.halving.value_or(HalvingRules{.most_rungs = 1}));
}

// Rung after rung; the last one has the whole runs, and their names.
std::vector<RunOrder> orders_of(const CompareOptions& options) {
  const std::vector<std::string> names = file_names(options.recipes);
  const Halving halving = halving_of(options);
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
                     .training_set = options.training_set && rung + 1 == halving.rungs(),
                     .sharpness = options.sharpness && rung + 1 == halving.rungs(),
                     .ranks = options.ranks};
      order.recipe.seed = static_cast<int64_t>(round) + 1;
      const std::string run = cat(names[i], "-seed", order.recipe.seed);
      order.name = order.share < 1 ? cat(run, "-rung", rung + 1) : run;
      order.folder = options.folder / "runs" / run;
      order.search = names[i] + "-search";
      order.found = study_result_file(options.folder, order.search);
      orders.push_back(std::move(order));
    }
  }
  return orders;
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

// The searches of all recipes.
std::vector<StudyRun> searches_of(const std::vector<RunOrder>& orders) {
  std::vector<StudyRun> runs;
  for (const RunOrder& order : orders) {
    if (order.recipe.seed != 1 || order.rung > 0) continue;
    runs.push_back({.name = order.search,
                    .variant = "",
                    .definition = search_definition(order),
                    .work = [&order] { return search(order.recipe); },
                    .label = "search of " + order.label,
                    .ranks = order.ranks});
  }
  return runs;
}

RunOutcome outcome_of(const RunOrder& order, const StudyResult& result) {
  if (!result.failed()) return outcome_from_json(result.value);
  return {.recipe = order.label,
          .seed = order.recipe.seed,
          .share = order.share,
          .failure = result.failure,
          .code = result.code};
}

void check_measured(const std::string& who, const FigureKinds& kinds, const CompareOptions& options) {
  std::vector<std::string> names;
  for (const auto& [name, kind] : kinds) names.push_back(name);
  const auto check = [&](const char* option, const std::string& figure) {
    if (kinds.contains(figure)) return;
    throw Error(ExitCode::kUsage, option, cat(quote(figure), " is not measured by ", who),
                "one of " + join_choices(names));
  };
  if (options.target) check("--target", options.target->figure);
  check("--figure", compared_figure(options));
}

void check_target(const CompareOptions& options, const FigureKinds& kinds) {
  if (!options.target || !kinds.at(options.target->figure).share || options.target->value <= 1) return;
  const double value = options.target->value;
  throw Error(ExitCode::kUsage, "--target",
              cat(options.target->figure, " is a share, of which ", shortest(value), " is never reached"),
              value <= 100 ? cat("--target ", options.target->figure, "=", shortest(value / 100))
                           : "a number from 0 to 1");
}

void check_kinds(const std::string& who, const FigureKinds& kinds, const CompareOptions& options) {
  check_measured(who, kinds, options);
  check_target(options, kinds);
}

std::string machine_of(const std::vector<RunOutcome>& runs, int64_t ranks) {
  for (const RunOutcome& run : runs) {
    if (run.plan.is_null()) continue;
    return cat(run.plan.at("device_name").get<std::string>(), ", ", usable_processors(), " processors",
               ranks > 1 ? cat(", ", ranks, " ranks") : "");
  }
  return "";
}

std::vector<std::pair<size_t, size_t>> all_pairs(const std::vector<size_t>& recipes) {
  std::vector<std::pair<size_t, size_t>> pairs;
  for (size_t a = 0; a < recipes.size(); ++a) {
    for (size_t b = a + 1; b < recipes.size(); ++b) pairs.emplace_back(recipes[a], recipes[b]);
  }
  return pairs;
}

// Whether less of a figure is better; of one that nothing measured, never.
bool is_lower_better(const FigureKinds& kinds, const std::string& figure) {
  const auto kind = kinds.find(figure);
  return kind != kinds.end() && kind->second.better == Better::kLower;
}

// What halving knows by now, in the figure's own sign.
std::vector<Rung> rungs_of(const Halving& halving, size_t recipes, bool lower_is_better) {
  std::vector<Rung> rungs;
  for (size_t i = 0; i < halving.rungs(); ++i) {
    Rung& rung = rungs.emplace_back(Rung{.share = halving.share(i)});
    for (size_t point = 0; point < recipes; ++point)
      rung.medians.push_back((lower_is_better ? 1 : -1) * halving.median(i, point));
  }
  return rungs;
}

ComparisonTerms terms_of(const CompareOptions& options, const std::vector<RunOutcome>& runs,
                         const FigureKinds& kinds, const Halving& halving) {
  ComparisonTerms terms{.machine = machine_of(runs, options.ranks), .figure = compared_figure(options)};
  for (const NamedRecipe& named : options.recipes) terms.recipes.push_back(named.label);
  for (int64_t seed = 1; seed <= options.seeds; ++seed) terms.seeds.push_back(seed);
  terms.lower_is_better = is_lower_better(kinds, terms.figure);
  terms.target = options.target;
  if (terms.target) terms.target->at_most = is_lower_better(kinds, terms.target->figure);
  const bool halved = halving.rungs() > 1;
  if (options.halving) terms.rungs = rungs_of(halving, options.recipes.size(), terms.lower_is_better);
  // Halving may leave none of the pairs that were wanted.
  terms.pairs =
      options.pairs.empty() || halved ? all_pairs(halving.running(halving.rungs() - 1)) : options.pairs;
  terms.differing_keys = differing_keys(options.recipes);
  terms.warnings = unfair_because(terms.differing_keys);
  terms.axes = options.axes;
  terms.equal_losses = std::ranges::none_of(terms.differing_keys, [](const DifferingKey& key) {
    return key.path == "loss" || key.path.starts_with("loss.") || key.path.starts_with("data.");
  });
  return terms;
}

// Results as they come, and the comparison of those that are there.
class Outcomes {
 public:
  Outcomes(const CompareOptions& options, const std::vector<RunOrder>& orders)
      : options_(options), orders_(orders), halving_(halving_of(options)) {}

  /// Whether a search or a run is to be made, now that its turn has come.
  bool wants(const StudyRun& run) const {
    const auto order = std::ranges::find(orders_, run.name, &RunOrder::name);
    return order == orders_.end() || halving_.wanted(order->rung, order->point);
  }

  void add(const StudyResult& result) {
    const auto order = std::ranges::find(orders_, result.name, &RunOrder::name);
    if (order == orders_.end()) return check_search(result);
    const RunOutcome& outcome = by_name_[result.name] = outcome_of(*order, result);
    if (!outcome.curve.empty()) learn_kinds(outcome.recipe, outcome.figure_kinds);
    halving_.add(order->rung, order->point, cost_of(*order, outcome));
    options_.on_outcome(outcome, result.kept);
    if (!result.kept) write_comparison(comparison(), options_.folder);
  }

  Comparison comparison() const {
    std::vector<RunOutcome> runs;
    std::map<fs::path, size_t> places;  // of a run whose rungs are several orders, the latest counts
    for (const RunOrder& order : orders_) {
      if (!by_name_.contains(order.name)) continue;
      const auto [place, first] = places.try_emplace(order.folder, runs.size());
      if (first) runs.emplace_back();
      runs[place->second] = by_name_.at(order.name);
    }
    ComparisonTerms terms = terms_of(options_, runs, kinds_, halving_);
    return analyse(std::move(terms), std::move(runs));
  }

 private:
  // Before anything is trained: a search also says what the recipe's evaluations measure.
  void check_search(const StudyResult& result) {
    if (result.failed()) return;  // its runs search for themselves, or fail as it did
    const auto order = std::ranges::find(orders_, result.name, &RunOrder::search);
    learn_kinds(order->label, kinds_from_json(result.value.at("figure_kinds")));
  }

  void learn_kinds(const std::string& who, const FigureKinds& kinds) {
    check_kinds(who, kinds, options_);
    kinds_ = kinds;
  }

  // Less is better.
  double cost_of(const RunOrder& order, const RunOutcome& outcome) const {
    const std::string figure = compared_figure(options_);
    const CurvePoint* const point = at_share(outcome.curve, order.recipe.stop, order.share);
    if (point == nullptr || !point->figures.contains(figure)) return std::numeric_limits<double>::infinity();
    return (is_lower_better(kinds_, figure) ? 1 : -1) * point->figures.at(figure);
  }

  const CompareOptions& options_;
  const std::vector<RunOrder>& orders_;
  Halving halving_;
  FigureKinds kinds_;  // of what the recipes measure
  std::map<std::string, RunOutcome> by_name_;
};

}  // namespace

Comparison compare(const CompareOptions& options) {
  check_comparison(options);
  const std::vector<RunOrder> orders = orders_of(options);
  std::vector<StudyRun> runs = searches_of(orders);
  for (const RunOrder& order : orders) runs.push_back(run_of(order));
  Outcomes outcomes(options, orders);
  run_study(runs, {.kind = "comparison",
                   .folder = options.folder,
                   .wanted = [&](const StudyRun& run) { return outcomes.wants(run); },
                   .on_progress = options.on_progress,
                   .on_result = [&](const StudyResult& result) { outcomes.add(result); }});
  const Comparison comparison = outcomes.comparison();
  write_comparison(comparison, options.folder);
  return comparison;
}

size_t planned_outcomes(const CompareOptions& options) {
  const Halving halving = halving_of(options);
  size_t runs = 0;
  for (size_t rung = 0; rung < halving.rungs(); ++rung) runs += halving.running(rung).size();
  return runs * static_cast<size_t>(options.seeds);
}

void check_comparison(const CompareOptions& options) {
  std::set<std::string> labels;
  for (const NamedRecipe& named : options.recipes) {
    if (!labels.insert(named.label).second)
      throw Error(ExitCode::kUsage, "compare", quote(named.label) + " is there twice",
                  "leave one of them out");
    if (!named.recipe.data.validation)
      fail_recipe(named.recipe, "data.validation", "is not set, so that there is nothing to compare",
                  "give data to evaluate on");
    if (named.recipe.evaluation.every.unit == Interval::Unit::kMinutes)
      fail_recipe(named.recipe, "evaluation.every", "in minutes evaluates every run after other updates",
                  "count it in epochs, updates or samples");
    const StopRecipe& stop = named.recipe.stop;
    if (options.halving && !stop.epochs && !stop.samples && !stop.updates)
      fail_recipe(named.recipe, "stop.minutes",
                  "alone does not say how much of a run is done, which halving has to know",
                  "set stop.epochs or stop.samples");
  }
}

void check_figures(const CompareOptions& options) {
  const NamedRecipe& first = options.recipes.at(0);
  check_kinds(first.recipe.name, Trainer::from_recipe(first.recipe, {.write_files = false}).figure_kinds(),
              options);
}

std::string compared_figure(const CompareOptions& options) {
  if (!options.figure.empty()) return options.figure;
  return options.target ? options.target->figure : options.recipes.at(0).recipe.evaluation.monitor;
}

std::vector<DifferingKey> differing_keys(const std::vector<NamedRecipe>& recipes) {
  std::map<std::string, std::vector<std::string>> rows;
  for (size_t i = 0; i < recipes.size(); ++i) {
    for (const auto& [path, value] : values_of(recipes[i].recipe, catalog())) {
      rows.try_emplace(path, recipes.size(), "absent").first->second[i] = value;
    }
  }
  rows.erase("name");
  rows.erase("seed");
  std::vector<DifferingKey> keys;
  for (auto& [path, values] : rows) {
    const bool equal =
        std::all_of(values.begin(), values.end(), [&](const auto& v) { return v == values[0]; });
    if (!equal) keys.push_back({path, std::move(values)});
  }
  return keys;
}

std::vector<std::string> unfair_because(const std::vector<DifferingKey>& keys) {
  struct Cause {
    const char* section;
    const char* sentence;
  };
  constexpr std::array kCauses = {
      Cause{"data.train", "they learn from different data"},
      Cause{"data.validation", "they are evaluated on different data"},
      Cause{"model.weights", "they start from different weights"},
      Cause{"loss", "their losses are different quantities"},
      Cause{"evaluation.every",
            "they are evaluated at different times: targets are noticed sooner where that is more often"},
      Cause{"stop", "they stop differently: figures are compared where the shortest run ends"},
      Cause{"execution.device", "they run on different devices: times say little about the recipes"},
      Cause{"execution.threads", "they compute with different numbers of threads"}};
  std::vector<std::string> warnings;
  for (const Cause& cause : kCauses) {
    std::vector<std::string> paths;
    for (const DifferingKey& key : keys) {
      if (key.path == cause.section || key.path.starts_with(cat(cause.section, ".")))
        paths.push_back(key.path);
    }
    if (!paths.empty()) warnings.push_back(cat(cause.sentence, " (", join(paths, ", "), ")"));
  }
  return warnings;
}

}  // namespace autotrain
