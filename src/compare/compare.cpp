#include "compare/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "autotrain/trainer.h"
#include "base/command_line.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "base/version.h"
#include "compare/compare_page.h"
#include "compare/fairness.h"
#include "compare/run_order.h"
#include "compare/test_data.h"
#include "loop/requeue.h"
#include "measure/machine.h"
#include "recipe/reader.h"
#include "report/figures_json.h"
#include "setup/data_places.h"
#include "study/run_share.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

Halving halving_of(const CompareOptions& options) {
  return Halving(options.recipes.size(), static_cast<size_t>(options.seeds),
                 options.halving.value_or(HalvingRules{.most_rungs = 1}));
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
  if (options.target) measured_kind(kinds, options.target->figure, "--target", who);
  measured_kind(kinds, compared_figure(options), "--figure", who);
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
  if (options.margin)
    margin_in(*options.margin, kinds.at(compared_figure(options)), compared_figure(options));
}

// The first that a recipe names; 0: none does.
int requeue_signal_of(const std::vector<NamedRecipe>& recipes) {
  for (const NamedRecipe& named : recipes) {
    if (const int signal = signal_number(named.recipe.execution.requeue_signal)) return signal;
  }
  return 0;
}

std::string machine_of(const std::vector<RunOutcome>& runs, int64_t ranks) {
  for (const RunOutcome& run : runs) {
    if (run.plan.is_null()) continue;
    const int64_t processors = usable_processors();
    return cat(run.plan.at("device_name").get<std::string>(), ", ", processors,
               processors == 1 ? " processor" : " processors", ranks > 1 ? cat(", ", ranks, " ranks") : "");
  }
  return "";
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
  for (int64_t seed = 0; seed < options.seeds; ++seed) terms.seeds.push_back(options.first_seed + seed);
  terms.lower_is_better = is_lower_better(kinds, terms.figure);
  terms.target = options.target;
  if (terms.target) terms.target->at_most = is_lower_better(kinds, terms.target->figure);
  terms.paired = options.paired;
  terms.tuned = options.tuned;
  if (const auto kind = kinds.find(terms.figure); options.margin && kind != kinds.end())
    terms.margin = margin_in(*options.margin, kind->second, terms.figure);
  const bool halved = halving.rungs() > 1;
  if (options.halving) terms.rungs = rungs_of(halving, options.recipes.size(), terms.lower_is_better);
  // Halving may leave none of the pairs that were wanted.
  terms.pairs =
      options.pairs.empty() || halved ? all_pairs(halving.running(halving.rungs() - 1)) : options.pairs;
  terms.differing_keys = differing_keys(options.recipes);
  terms.warnings = unfair_because(terms.differing_keys);
  terms.axes = options.axes;
  terms.equal_losses = losses_are_alike(terms.differing_keys);
  return terms;
}

// Results as they come, and the comparison of those that are there.
class Outcomes {
 public:
  Outcomes(const CompareOptions& options, const std::vector<RunOrder>& orders, std::vector<int64_t> looks)
      : options_(options), orders_(orders), looks_(std::move(looks)), halving_(halving_of(options)) {}

  /// Whether a search or a run is to be made, now that its turn has come.
  bool wants(const StudyRun& run) const {
    const auto order = std::ranges::find(orders_, run.name, &RunOrder::name);
    return order == orders_.end() || std::ranges::any_of(orders_, [&](const RunOrder& each) {
             return (each.name == run.name || each.twin == run.name) &&
                    halving_.wanted(each.rung, each.point);
           });
  }

  void add(const StudyResult& result) {
    const auto order = std::ranges::find(orders_, result.name, &RunOrder::name);
    if (order == orders_.end()) return check_search(result);
    add(*order, result, result.kept);
    for (const RunOrder& twin : orders_) {
      if (twin.twin == order->name) add(twin, result, /*kept=*/true);
    }
    if (!result.kept) write_comparison(comparison(/*so_far=*/true), options_.folder);
  }

  /// @param so_far whether runs may be still to come.
  Comparison comparison(bool so_far) const {
    std::vector<RunOutcome> runs;
    std::map<std::filesystem::path, size_t>
        places;  // of a run whose rungs are several orders, the latest counts
    for (const RunOrder& order : orders_) {
      if (!by_name_.contains(order.name)) continue;
      const auto [place, first] = places.try_emplace(order.folder, runs.size());
      if (first) runs.emplace_back();
      runs[place->second] = by_name_.at(order.name);
    }
    ComparisonTerms terms = terms_of(options_, runs, kinds_, halving_);
    terms.looks = looks_;
    terms.so_far = so_far;
    terms.provenance = {.command = options_.command, .date = utc_date(), .program = version()};
    terms.provenance.data.resize(options_.recipes.size());
    for (const RunOrder& order : orders_) terms.provenance.data[order.point] = order.files;
    return analyse(std::move(terms), std::move(runs));
  }

 private:
  void add(const RunOrder& order, const StudyResult& result, bool kept) {
    RunOutcome& outcome = by_name_[order.name] = outcome_of(order, result);
    outcome.recipe = order.label;
    if (!outcome.curve.empty()) learn_kinds(outcome.recipe, outcome.figure_kinds);
    halving_.add(order.rung, order.point, cost_of(order, outcome));
    options_.on_outcome(outcome, kept);
  }

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
  const std::vector<int64_t> looks_;  // with how many seeds
  Halving halving_;
  FigureKinds kinds_;  // of what the recipes measure
  std::map<std::string, RunOutcome> by_name_;
};

// The report that is there. None where it cannot be read: it is written anew from the results beside it.
std::optional<Comparison> former_report(const fs::path& folder) {
  if (!is_comparison_folder(folder)) return std::nullopt;
  try {
    return read_comparison(folder);
  } catch (const Error& error) {
    log::warn("compare", cat("the former report cannot be read, and is written anew: ", error.what()));
    return std::nullopt;
  }
}

bool is_same(const std::optional<Target>& a, const std::optional<Target>& b) {
  return a.has_value() == b.has_value() && (!a || (a->figure == b->figure && a->value == b->value));
}

bool is_same(const std::optional<double>& former, const std::optional<Margin>& asked) {
  return former.has_value() == asked.has_value() &&
         (!asked || *former == (asked->percent ? asked->value / 100 : asked->value));
}

// A report of other recipes, seeds or figures stays beside the one that takes its place: somebody may have
// quoted it.
void keep_report(const ComparisonTerms& former, const CompareOptions& options) {
  std::vector<std::string> labels;
  for (const NamedRecipe& named : options.recipes) labels.push_back(named.label);
  if (former.recipes == labels && std::ssize(former.seeds) == options.seeds &&
      former.figure == compared_figure(options) && former.paired == options.paired &&
      is_same(former.margin, options.margin) && is_same(former.target, options.target))
    return;
  int number = 1;
  while (fs::exists(options.folder / cat("former-", number))) ++number;
  const fs::path kept = options.folder / cat("former-", number);
  fs::create_directory(kept);
  for (const char* const file :
       {"compare.json", "compare.csv", "report.html", "compare.md", "compare.tex", "curves.csv"}) {
    if (fs::exists(options.folder / file)) fs::copy_file(options.folder / file, kept / file);
  }
}

// With how many seeds the folder's study was looked at: by the report that is there and those before it. A
// report without a test, as of one seed or of a study that was stopped (ComparisonTerms::so_far), showed no
// verdict.
std::vector<int64_t> looks_at(const Comparison& former, const CompareOptions& options) {
  std::set<int64_t> looks(former.terms.looks.begin(), former.terms.looks.end());
  const bool tested = std::ranges::any_of(
      former.differences, [](const Difference& difference) { return !std::isnan(difference.p_welch); });
  if (tested) looks.insert(std::ssize(former.terms.seeds));
  looks.erase(options.seeds);
  return {looks.begin(), looks.end()};
}

}  // namespace

double margin_in(const Margin& margin, const FigureKind& kind, const std::string& figure) {
  if (margin.percent && !kind.share)
    throw Error(ExitCode::kUsage, "--margin", cat(figure, " is no share, of which there could be percent"),
                "a number in its own measure");
  constexpr double kSurelyAShare = 0.05;
  if (!margin.percent && kind.share && margin.value > kSurelyAShare)
    throw Error(
        ExitCode::kUsage, "--margin",
        cat(shortest(margin.value), " may mean ", shortest(margin.value), " points or ",
            shortest(100 * margin.value), " points of ", figure, ", which is from 0 to 1"),
        cat("--margin ", shortest(margin.value), "% or --margin ", shortest(100 * margin.value), "%"));
  return margin.percent ? margin.value / 100 : margin.value;
}

Comparison compare(const CompareOptions& options) {
  check_comparison(options);
  std::vector<int64_t> looks;
  if (const std::optional<Comparison> former = former_report(options.folder)) {
    looks = looks_at(*former, options);
    keep_report(former->terms, options);
  }
  const std::vector<RunOrder> orders = orders_of(options, halving_of(options));
  const std::vector<StudyRun> runs = study_runs_of(orders);
  Outcomes outcomes(options, orders, looks);
  const StopSignalScope requeue(requeue_signal_of(options.recipes));
  run_study(runs, {.kind = "comparison",
                   .folder = options.folder,
                   .wanted = [&](const StudyRun& run) { return outcomes.wants(run); },
                   .on_progress = options.on_progress,
                   .on_result = [&](const StudyResult& result) { outcomes.add(result); }});
  Comparison comparison = outcomes.comparison(/*so_far=*/false);
  write_comparison(comparison, options.folder);
  if (!options.reads_test) return comparison;
  comparison.terms.test = read_test_data(options, orders, comparison);
  if (!comparison.terms.test.empty()) write_comparison(comparison, options.folder);
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
    check_test_data(named.recipe);
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

std::vector<std::pair<size_t, size_t>> all_pairs(const std::vector<size_t>& recipes) {
  std::vector<std::pair<size_t, size_t>> pairs;
  for (size_t a = 0; a < recipes.size(); ++a) {
    for (size_t b = a + 1; b < recipes.size(); ++b) pairs.emplace_back(recipes[a], recipes[b]);
  }
  return pairs;
}

const FigureKind& measured_kind(const FigureKinds& kinds, const std::string& figure, const char* option,
                                const std::string& who) {
  const auto found = kinds.find(figure);
  if (found != kinds.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [name, kind] : kinds) names.push_back(name);
  throw Error(ExitCode::kUsage, option, cat(quote(figure), " is not measured by ", who),
              "one of " + join_choices(names));
}

std::string compared_figure(const CompareOptions& options) {
  if (!options.figure.empty()) return options.figure;
  return options.target ? options.target->figure : options.recipes.at(0).recipe.evaluation.monitor;
}

}  // namespace autotrain
