#include "compare/comparison.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "base/text.h"
#include "base/units.h"
#include "compare/compare_columns.h"
#include "compare/fairness.h"
#include "measure/timing.h"

namespace autotrain {
namespace {

using Values = std::vector<double>;

// Whether a run says what its recipe comes to.
bool ended(const RunOutcome& run) {
  return !run.curve.empty() && run.share >= 1 && run.unfinished.empty();
}

// Whether a run ought to have a value: whether it failed, was taken to its end, or is on its way there.
bool counts(const RunOutcome& run) {
  return !run.failure.empty() || !run.unfinished.empty() || run.share >= 1;
}

bool is_under_way(const Comparison& c, size_t recipe) {
  return std::ranges::any_of(c.runs, [&](const RunOutcome& run) {
    return run.recipe == c.terms.recipes[recipe] && !run.unfinished.empty();
  });
}

// The values of a recipe's runs, without failures and values that are not finite.
template <class Value>
Values values_of(const Comparison& c, size_t recipe, Value value) {
  Values values;
  for (const RunOutcome& run : c.runs) {
    if (run.recipe != c.terms.recipes[recipe] || !ended(run)) continue;
    const std::optional<double> found = value(run);
    if (found && std::isfinite(*found)) values.push_back(*found);
  }
  return values;
}

// The runs of a recipe that ought to have a value.
int64_t counted_runs(const Comparison& c, size_t recipe) {
  return std::ranges::count_if(
      c.runs, [&](const RunOutcome& run) { return run.recipe == c.terms.recipes[recipe] && counts(run); });
}

// Where the runs of the recipe end that ends first: their median, so that no single run sets it.
double common_place(const Comparison& c, FairAxis axis) {
  double least = std::numeric_limits<double>::infinity();
  for (size_t recipe = 0; recipe < c.terms.recipes.size(); ++recipe) {
    const Values ends = values_of(
        c, recipe, [&](const RunOutcome& run) { return std::optional(place_of(run.curve.back(), axis)); });
    if (!ends.empty()) least = std::min(least, median_of(ends));
  }
  return std::isfinite(least) ? least : 0;
}

bool end_at_different_samples(const Comparison& c) {
  std::optional<int64_t> first;
  for (const RunOutcome& run : c.runs) {
    if (!ended(run)) continue;
    if (first && *first != run.curve.back().samples) return true;
    first = run.curve.back().samples;
  }
  return false;
}

// A window is as long as an update of the largest batch, and long enough that small batches' losses are
// smooth.
double loss_window(const Comparison& c) {
  constexpr double kShare = 0.02;  // of the shortest run
  double window = kShare * common_place(c, FairAxis::kSamples);
  for (const RunOutcome& run : c.runs) {
    if (ended(run) && run.plan.is_object()) window = std::max(window, run.plan.value("effective_batch", 0.0));
  }
  return window;
}

// Finds the loss with which the recipe ends that learned least: the median of its runs, so that no single run
// sets it. None where a run has no loss, or where losses are different quantities.
void find_training_loss(Comparison& c) {
  if (!c.terms.equal_losses) return;
  double most = std::numeric_limits<double>::quiet_NaN();
  for (size_t recipe = 0; recipe < c.terms.recipes.size(); ++recipe) {
    bool all_have = true;
    const Values losses = values_of(c, recipe, [&](const RunOutcome& run) {
      const std::optional<double> loss = end_loss(run.losses, c.loss_window);
      all_have &= loss.has_value();
      return loss;
    });
    if (!all_have) return;
    if (losses.empty() || median_of(losses) <= most) continue;
    most = median_of(losses);
    c.least_learned = recipe;
  }
  c.training_loss = most;
}

// Where a run is compared on an axis; nothing: nowhere.
std::optional<double> place_on(const Comparison& c, const RunOutcome& run, FairAxis axis) {
  switch (axis) {
    case FairAxis::kSamples: return static_cast<double>(c.samples);
    case FairAxis::kSeconds: return c.seconds;
    case FairAxis::kTrainingLoss: return run.loss_place;
    case FairAxis::kEnd:
    case FairAxis::kBest: break;  // places of its own
  }
  return std::nullopt;
}

std::optional<double> figure_in(const std::map<std::string, double>& figures, const std::string& name) {
  const auto found = figures.find(name);
  return found == figures.end() ? std::nullopt : std::optional(found->second);
}

// By seed.
std::map<int64_t, double> values_by_seed(const Comparison& c, size_t recipe, FairAxis axis) {
  std::map<int64_t, double> values;
  for (const RunOutcome& run : c.runs) {
    if (run.recipe != c.terms.recipes[recipe] || !ended(run)) continue;
    if (const auto value = compared_value(c, run, axis); value && std::isfinite(*value))
      values[run.seed] = *value;
  }
  return values;
}

// The values of two recipes, those of the same seeds side by side where both have the same seeds.
struct PairOfValues {
  Values a = {}, b = {};
  bool same_seeds = false;
};

PairOfValues pair_of_values(const Comparison& c, size_t a, size_t b, FairAxis axis) {
  PairOfValues pair;
  const auto of_a = values_by_seed(c, a, axis), of_b = values_by_seed(c, b, axis);
  for (const auto& [seed, value] : of_a) pair.a.push_back(value);
  for (const auto& [seed, value] : of_b) pair.b.push_back(value);
  pair.same_seeds = std::ranges::equal(of_a, of_b, {}, &std::pair<const int64_t, double>::first,
                                       &std::pair<const int64_t, double>::first);
  return pair;
}

// Runs of one recipe are evaluated at the same updates. Where one of them has no value, the mean of the
// others would be of other runs than beside it: there is no point.
std::vector<BandPoint> band_of(const Comparison& c, size_t recipe) {
  struct Cell {
    int64_t samples = 0;
    Values seconds = {}, figure = {};
  };
  std::map<int64_t, Cell> by_update;
  for (const RunOutcome& run : c.runs) {
    if (run.recipe != c.terms.recipes[recipe]) continue;
    for (const CurvePoint& point : run.curve) {
      Cell& cell = by_update[point.update];
      cell.samples = point.samples;
      cell.seconds.push_back(point.seconds);
      const double value = figure_in(point.figures, c.terms.figure).value_or(NAN);
      if (std::isfinite(value)) cell.figure.push_back(value);
    }
  }
  const auto evaluated = std::ranges::count_if(c.runs, [&](const RunOutcome& run) {
    return run.recipe == c.terms.recipes[recipe] && !run.curve.empty();
  });
  std::vector<BandPoint> band;
  for (const auto& [update, cell] : by_update) {
    if (std::ssize(cell.figure) == evaluated)
      band.push_back({update, cell.samples, mean(cell.seconds), spread_of(cell.figure, evaluated)});
  }
  return band;
}

void add_gaps(RecipeFigures& figures, const Comparison& c, size_t recipe) {
  for (const RunOutcome& some : c.runs) {
    for (const auto& [name, unused] : some.training_set) {
      figures.gaps[name] =
          spread_of(values_of(c, recipe,
                              [&](const RunOutcome& run) -> std::optional<double> {
                                const auto seen = figure_in(run.training_set, name);
                                const auto unseen = figure_in(run.curve.back().figures, name);
                                return seen && unseen ? std::optional(*seen - *unseen) : std::nullopt;
                              }),
                    counted_runs(c, recipe));
    }
  }
}

void add_sharpness(RecipeFigures& figures, const Comparison& c, size_t recipe) {
  const bool asked =
      std::ranges::any_of(c.runs, [](const RunOutcome& run) { return run.sharpness.has_value(); });
  if (!asked) return;
  for (const RunOutcome& run : c.runs) {
    if (run.recipe == c.terms.recipes[recipe] && run.sharpness && figures.no_sharpness.empty())
      figures.no_sharpness = run.sharpness->unavailable;
  }
  for (const SharpnessFigure& figure : sharpness_figures()) {
    figures.sharpness.push_back(spread_of(values_of(c, recipe,
                                                    [&](const RunOutcome& run) -> std::optional<double> {
                                                      if (!run.sharpness ||
                                                          !run.sharpness->unavailable.empty())
                                                        return std::nullopt;
                                                      return figure.of(*run.sharpness);
                                                    }),
                                          counted_runs(c, recipe)));
  }
}

// When each of a recipe's runs came to the target, in samples; infinite: not by Comparison::samples, or
// never.
Values times_to_target(const Comparison& c, size_t recipe) {
  Values times;
  for (const RunOutcome& run : c.runs) {
    if (run.recipe != c.terms.recipes[recipe] || !counts(run) || !run.unfinished.empty()) continue;
    const CurvePoint* const reached =
        c.terms.target && run.failure.empty() ? first_reaching(run.curve, *c.terms.target) : nullptr;
    const bool in_time = reached != nullptr && reached->samples <= c.samples;
    times.push_back(in_time ? static_cast<double>(reached->samples)
                            : std::numeric_limits<double>::infinity());
  }
  return times;
}

void add_way_to_target(RecipeFigures& figures, const Comparison& c, size_t recipe) {
  if (!c.terms.target) return;
  Values times = times_to_target(c, recipe);
  if (times.empty()) return;
  figures.reached = std::ranges::count_if(times, [](double time) { return std::isfinite(time); });
  figures.reached_share = share_interval(figures.reached, std::ssize(times));
  figures.olympic_samples = olympic_mean(times);
  for (double& time : times) time = std::min(time, static_cast<double>(c.samples));
  figures.restricted = spread_of(times, std::ssize(times));
}

// On how many samples the evaluations of a recipe's runs were; none where that is not known.
std::set<int64_t> evaluated_samples_of(const Comparison& c, size_t recipe) {
  std::set<int64_t> numbers;
  for (const RunOutcome& run : c.runs) {
    if (run.recipe != c.terms.recipes[recipe]) continue;
    for (const CurvePoint& point : run.curve)
      if (point.evaluated > 0) numbers.insert(point.evaluated);
  }
  return numbers;
}

std::string in_words(const std::set<int64_t>& numbers) {
  return *numbers.begin() == *numbers.rbegin()
             ? format_count(*numbers.begin())
             : cat(format_count(*numbers.begin()), " to ", format_count(*numbers.rbegin()));
}

// Why the figures of two recipes are different quantities, by their keys and by what was evaluated: which
// samples validate may follow from keys of the training data. "": they are not.
std::string why_unlike(const Comparison& c, const ComparisonTerms& terms, size_t a, size_t b) {
  if (const std::string why = why_not_comparable(terms, a, b); !why.empty()) return why;
  const std::set<int64_t> of_a = evaluated_samples_of(c, a), of_b = evaluated_samples_of(c, b);
  if (of_a.empty() || of_b.empty() || of_a == of_b) return "";
  return cat("are evaluated on different numbers of samples (", in_words(of_a), " and ", in_words(of_b), ")");
}

// All pairs whose figures are the same quantity: one family of tests.
std::vector<TargetTest> target_tests_of(const Comparison& c) {
  std::vector<TargetTest> tests;
  if (!c.terms.target) return tests;
  ComparisonTerms of_target = c.terms;
  of_target.figure = c.terms.target->figure;
  std::vector<double> p;
  for (const auto& [a, b] : c.terms.pairs) {
    LogRankTest test = {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::quiet_NaN()};
    const bool known = !c.terms.so_far && !is_under_way(c, a) && !is_under_way(c, b);
    if (known && why_unlike(c, of_target, a, b).empty())
      test = log_rank_test(times_to_target(c, a), times_to_target(c, b));
    tests.push_back({.a = a, .b = b, .statistic = test.statistic, .p = test.p, .p_holm = 0});
    p.push_back(test.p);
  }
  const std::vector<double> corrected = holm(std::move(p));
  for (size_t i = 0; i < tests.size(); ++i) tests[i].p_holm = corrected[i];
  return tests;
}

RecipeFigures figures_of(const Comparison& c, size_t recipe) {
  RecipeFigures figures;
  for (const RunOutcome& run : c.runs) {
    if (run.recipe != c.terms.recipes[recipe]) continue;
    ++figures.runs;
    figures.failed += run.failure.empty() ? 0 : 1;
    figures.unfinished += run.failure.empty() && (run.share < 1 || !run.unfinished.empty()) ? 1 : 0;
    if (figures.plan.is_null()) figures.plan = run.plan;
  }
  int64_t known = figures.runs;  // of those under way nobody knows yet whether they fail
  for (const RunOutcome& run : c.runs)
    known -= run.recipe == c.terms.recipes[recipe] && !run.unfinished.empty() ? 1 : 0;
  if (known > 0) figures.failed_share = share_interval(figures.failed, known);
  const int64_t counted = counted_runs(c, recipe);
  const auto spread = [&](auto value) { return spread_of(values_of(c, recipe, value), counted); };
  figures.final =
      spread([&](const RunOutcome& run) { return figure_in(run.curve.back().figures, c.terms.figure); });
  for (const Column<ComparedRun>& column : run_columns())
    figures.spreads.push_back(spread([&](const RunOutcome& run) {
      return std::optional(number_of(column.value({c, run})));
    }));
  add_gaps(figures, c, recipe);
  add_sharpness(figures, c, recipe);
  add_way_to_target(figures, c, recipe);
  figures.curve = band_of(c, recipe);
  return figures;
}

std::set<std::string> machines_of(const Comparison& c, size_t a, size_t b) {
  std::set<std::string> machines;
  for (const RunOutcome& run : c.runs) {
    const bool of_pair = run.recipe == c.terms.recipes[a] || run.recipe == c.terms.recipes[b];
    if (of_pair && run.plan.is_object()) machines.insert(run.plan.value("device_name", ""));
  }
  return machines;
}

bool differ_in(const ComparisonTerms& terms, size_t a, size_t b, const char* path) {
  return std::ranges::any_of(terms.differing_keys, [&](const DifferingKey& key) {
    return key.path == path && key.values.at(a) != key.values.at(b);
  });
}

// The recipes of two that have runs of a lower loss than the common one as soon as there is a mean of it.
std::vector<std::string> below_at_first(const Comparison& c, size_t a, size_t b) {
  std::vector<std::string> below;
  for (const size_t recipe : {a, b}) {
    const std::string& name = c.terms.recipes[recipe];
    if (std::ranges::any_of(c.runs,
                            [&](const RunOutcome& r) { return r.recipe == name && r.below_at_first; }))
      below.push_back(name);
  }
  return below;
}

// Why an axis makes nothing equal for two recipes; "": it does.
std::string why_not_on(const Comparison& c, size_t a, size_t b, FairAxis axis) {
  if (axis == FairAxis::kBest && differ_in(c.terms, a, b, "evaluation.every"))
    return "are evaluated at different intervals (evaluation.every), and the best of more evaluations looks "
           "better";
  if (axis == FairAxis::kTrainingLoss) {
    const std::vector<std::string> below = below_at_first(c, a, b);
    if (!below.empty())
      return cat("are not equal in it: ", join(below, " and "), " had less already over the first ",
                 format_count(std::llround(c.loss_window)), " samples");
  }
  if (axis == FairAxis::kSeconds && !differ_in(c.terms, a, b, "execution.device")) {
    const std::set<std::string> machines = machines_of(c, a, b);
    if (machines.size() > 1)
      return cat("ran on different machines (",
                 join(std::vector<std::string>(machines.begin(), machines.end()), ", "),
                 "), whose seconds are not the same");
  }
  return "";
}

// What is known of a pair before anything is computed of it: whether something may be said.
Difference pair_of(const Comparison& c, size_t a, size_t b, FairAxis axis) {
  using Verdict = Difference::Verdict;
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  Difference d{
      .a = a, .b = b, .axis = axis, .mean = kNaN, .interval = {kNaN, kNaN}, .p = kNaN, .p_holm = kNaN};
  d.reason = why_unlike(c, c.terms, a, b);
  if (d.reason.empty()) d.reason = why_not_on(c, a, b, axis);
  if (!d.reason.empty()) {
    d.verdict = Verdict::kNotComparable;
    return d;
  }
  for (const size_t recipe : {a, b}) {
    const std::string missing = missing_runs(c, recipe, axis);
    if (missing.empty()) continue;
    d.verdict = Verdict::kRunsMissing;
    d.reason += cat(d.reason.empty() ? "" : "; ", c.terms.recipes[recipe], ": ", missing);
  }
  if (d.reason.empty() && c.terms.so_far) d.reason = "runs are still to come";
  return d;
}

Difference::Verdict verdict_of(const Difference& d, const ComparisonTerms& terms) {
  using Verdict = Difference::Verdict;
  if (std::isnan(d.p_holm)) return Verdict::kNotTested;
  if (d.p_holm < verdict_level(terms))
    return (d.mean < 0) == terms.lower_is_better ? Verdict::kBetter : Verdict::kWorse;
  return d.p_equivalent < verdict_level(terms) ? Verdict::kEquivalent : Verdict::kNotDistinguishable;
}

Estimate chance_better(const PairOfValues& values, bool lower_is_better) {
  return lower_is_better ? probability_above(values.b, values.a) : probability_above(values.a, values.b);
}

// A test of two recipes; its p is NaN, with the reason, where the values allow none.
void test_pair(const Comparison& c, Difference& d, const PairOfValues& values) {
  using Verdict = Difference::Verdict;
  d.mean = mean(values.b) - mean(values.a);
  d.effect = hedges_g(values.a, values.b);
  d.chance_better = chance_better(values, c.terms.lower_is_better);
  const WelchTest welch = welch_test(values.a, values.b);
  d.p_welch = welch.p;
  if (values.same_seeds) {
    d.correlation = correlation(values.a, values.b);
    d.p_paired = paired_test(values.a, values.b).p;
  }
  if (c.terms.paired && !values.same_seeds) {
    d.reason = "their runs have different seeds, so they make no pairs";
    return;
  }
  const WelchTest test = c.terms.paired ? paired_test(values.a, values.b) : welch;
  if (std::isnan(test.degrees) && test.p == 0) {  // both constant, or all differences the same
    d.verdict = Verdict::kNoSpread;
    d.reason = c.terms.paired ? "all pairs differ by the same, so nothing tells what chance does"
                              : "neither varies over these seeds, so nothing tells what chance does";
    d.p_welch = d.p_paired = std::numeric_limits<double>::quiet_NaN();
    return;
  }
  d.p = test.p;
  d.interval = c.terms.paired ? paired_interval(values.a, values.b) : welch_interval(values.a, values.b);
  if (c.terms.margin) d.p_equivalent = equivalence_p(values.a, values.b, *c.terms.margin, c.terms.paired);
}

// Holm's correction of one of their members, over the family.
void correct(std::vector<Difference>& family, double Difference::*from, double Difference::*to) {
  std::vector<double> p;
  for (const Difference& d : family) p.push_back(d.*from);
  const std::vector<double> corrected = holm(std::move(p));
  for (size_t i = 0; i < family.size(); ++i) family[i].*to = corrected[i];
}

// All pairs on one axis: one family of tests.
std::vector<Difference> differences_on(const Comparison& c, FairAxis axis) {
  std::vector<Difference> family;
  for (const auto& [a, b] : c.terms.pairs) {
    Difference& d = family.emplace_back(pair_of(c, a, b, axis));
    if (d.reason.empty()) test_pair(c, d, pair_of_values(c, a, b, axis));
  }
  const auto tests = std::ranges::count_if(family, [](const Difference& d) { return !std::isnan(d.p); });
  correct(family, &Difference::p, &Difference::p_holm);
  for (auto member : {&Difference::p_welch, &Difference::p_paired, &Difference::p_equivalent})
    correct(family, member, member);
  for (Difference& d : family) {
    if (!d.reason.empty()) continue;
    d.verdict = verdict_of(d, c.terms);
    if (d.verdict != Difference::Verdict::kNotDistinguishable || c.terms.paired) continue;
    // At the level of Holm's first step, the strictest.
    d.runs_needed = runs_needed(d.mean, standard_deviation(values_on(c, d.a, axis)),
                                standard_deviation(values_on(c, d.b, axis)),
                                verdict_level(c.terms) / static_cast<double>(tests));
  }
  return family;
}

// Why a run has no value where it should: of one run, and of several.
struct NoValue {
  std::string one, several;
  auto operator<=>(const NoValue&) const = default;
};

NoValue why_no_value(const Comparison& c, const RunOutcome& run, FairAxis axis) {
  if (!run.failure.empty()) return {"failed", "failed"};
  if (!run.unfinished.empty()) return {"has not ended", "have not ended"};
  if (run.curve.empty()) return {"was never evaluated", "were never evaluated"};
  const std::optional<double> place = place_on(c, run, axis);
  if (place && place_of(run.curve.front(), axis) > *place)
    return {"was not evaluated by then", "were not evaluated by then"};
  const bool measured = std::ranges::any_of(
      run.curve, [&](const CurvePoint& point) { return point.figures.contains(c.terms.figure); });
  if (!measured) return {"did not measure " + c.terms.figure, "did not measure " + c.terms.figure};
  return {cat("has no finite ", c.terms.figure, " there"), cat("have no finite ", c.terms.figure, " there")};
}

// The seeds of a recipe's runs without a value.
std::map<NoValue, std::vector<std::string>> seeds_without_value(const Comparison& c, size_t recipe,
                                                                FairAxis axis) {
  std::map<NoValue, std::vector<std::string>> seeds;
  for (const RunOutcome& run : c.runs) {
    if (run.recipe == c.terms.recipes[recipe] && counts(run) && !compared_value(c, run, axis))
      seeds[why_no_value(c, run, axis)].push_back(std::to_string(run.seed));
  }
  return seeds;
}

bool better(const Comparison& c, size_t a, size_t b) {
  const double of_a = spread_on(c.recipes[a], FairAxis::kSamples).mean;
  const double of_b = spread_on(c.recipes[b], FairAxis::kSamples).mean;
  return c.terms.lower_is_better ? of_a < of_b : of_a > of_b;
}

// Recipes that cannot be told from the best one. Pairs that were asked for have their verdicts; of the
// others, which a grid does not ask for, all pairs of candidates are one family: the best was chosen among
// them.
std::vector<size_t> alike_to(const Comparison& c, size_t best, const std::vector<size_t>& candidates) {
  if (c.terms.so_far) {  // nothing is told yet
    std::vector<size_t> others = candidates;
    std::erase(others, best);
    return others;
  }
  std::vector<std::pair<size_t, size_t>> pairs;
  std::vector<double> p;
  for (size_t i = 0; i < candidates.size(); ++i) {
    for (size_t j = i + 1; j < candidates.size(); ++j) {
      pairs.emplace_back(candidates[i], candidates[j]);
      Difference d;
      d.p = std::numeric_limits<double>::quiet_NaN();
      test_pair(c, d, pair_of_values(c, candidates[i], candidates[j], FairAxis::kSamples));
      p.push_back(d.p);
    }
  }
  const std::vector<double> corrected = holm(std::move(p));
  std::vector<size_t> alike;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto [a, b] = pairs[i];
    if (a != best && b != best) continue;
    const auto asked = std::ranges::find_if(c.differences, [&](const Difference& d) {
      return d.axis == FairAxis::kSamples && std::minmax(d.a, d.b) == std::minmax(a, b);
    });
    const bool told = asked == c.differences.end() ? corrected[i] < verdict_level(c.terms)
                                                   : asked->verdict == Difference::Verdict::kBetter ||
                                                         asked->verdict == Difference::Verdict::kWorse;
    if (!told) alike.push_back(a == best ? b : a);
  }
  return alike;
}

// One that is left alone is the best of nothing, where others have no value because they were not evaluated
// by then or have not ended: any of them may be better. Those that fail are none of these.
bool leaves_open_if_alone(const Comparison& c, BestRecipe& best, const std::vector<size_t>& candidates) {
  if (candidates.size() != 1) return false;
  std::vector<size_t> open = candidates;
  for (const auto& [recipe, why] : best.left_out)
    if (c.recipes[recipe].failed == 0) open.push_back(recipe);
  if (open.size() == 1) return false;
  const bool under_way = std::ranges::any_of(open, [&](size_t recipe) { return is_under_way(c, recipe); });
  best.alike = std::move(open);
  best.why_none =
      cat("after ", format_count(c.samples), " samples ", c.terms.recipes[candidates[0]],
          " alone has a value of every run, and any may be better; ",
          under_way ? "runs of the others are still to end" : "a shorter evaluation.every gives all one");
  return true;
}

BestRecipe best_of(const Comparison& c) {
  BestRecipe best;
  std::vector<size_t> candidates;
  for (size_t i = 0; i < c.recipes.size(); ++i) {
    if (!has_part(c.recipes[i])) continue;
    const std::string missing = missing_runs(c, i, FairAxis::kSamples);
    if (missing.empty())
      candidates.push_back(i);
    else
      best.left_out.emplace_back(i, missing);
  }
  for (size_t i = 0; i < candidates.size(); ++i) {
    for (size_t j = i + 1; j < candidates.size(); ++j) {
      const std::string why = why_unlike(c, c.terms, candidates[i], candidates[j]);
      if (why.empty()) continue;
      best.why_none = cat(c.terms.recipes[candidates[i]], " and ", c.terms.recipes[candidates[j]], " ", why);
      return best;
    }
  }
  if (candidates.empty() || leaves_open_if_alone(c, best, candidates)) return best;
  best.recipe = *std::ranges::min_element(candidates, [&](size_t a, size_t b) { return better(c, a, b); });
  best.alike = alike_to(c, *best.recipe, candidates);
  return best;
}

}  // namespace

Values values_on(const Comparison& c, size_t recipe, FairAxis axis) {
  return values_of(c, recipe, [&](const RunOutcome& run) { return compared_value(c, run, axis); });
}

Spread spread_of(const Values& values, int64_t runs) {
  return {mean(values), standard_deviation(values), static_cast<int64_t>(values.size()), runs};
}

std::string missing_runs(const Comparison& c, size_t recipe, FairAxis axis) {
  std::vector<std::string> parts;
  const int64_t runs = counted_runs(c, recipe);
  for (const auto& [why, seeds] : seeds_without_value(c, recipe, axis)) {
    const bool one = seeds.size() == 1;
    parts.push_back(cat(seeds.size(), " of ", runs, runs == 1 ? " run " : " runs ",
                        one ? why.one : why.several, one ? " (seed " : " (seeds ", join(seeds, ", "), ")"));
  }
  return join(parts, ", ");
}

double verdict_level(const ComparisonTerms& terms) {
  return kFalseAlarms / std::pow(2, static_cast<double>(terms.looks.size()));
}

std::vector<int64_t> seeds_of(const Comparison& c, size_t recipe) {
  std::vector<int64_t> seeds;
  for (const RunOutcome& run : c.runs) {
    if (run.recipe == c.terms.recipes[recipe] && counts(run)) seeds.push_back(run.seed);
  }
  std::ranges::sort(seeds);
  return seeds;
}

bool same_figures(const Comparison& c, size_t a, size_t b) {
  const auto of_a = values_by_seed(c, a, FairAxis::kEnd), of_b = values_by_seed(c, b, FairAxis::kEnd);
  size_t both = 0;
  for (const auto& [seed, value] : of_a) {
    const auto other = of_b.find(seed);
    if (other == of_b.end()) continue;
    if (other->second != value) return false;
    ++both;
  }
  return both > 0;
}

std::vector<std::string> other_figures_differing(const Comparison& c, size_t a, size_t b) {
  std::set<std::string> names;
  for (const RunOutcome& of_a : c.runs) {
    for (const RunOutcome& of_b : c.runs) {
      if (of_a.recipe != c.terms.recipes[a] || of_b.recipe != c.terms.recipes[b] || of_a.seed != of_b.seed)
        continue;
      if (!ended(of_a) || !ended(of_b)) continue;
      for (const auto& [name, value] : of_a.curve.back().figures) {
        const std::optional<double> other = figure_in(of_b.curve.back().figures, name);
        const bool neither = other && std::isnan(*other) && std::isnan(value);
        if (other && *other != value && !neither) names.insert(name);
      }
    }
  }
  names.erase(c.terms.figure);
  return {names.begin(), names.end()};
}

Edge edge_of(const std::vector<std::string>& values, const std::string& value) {
  std::set<double> numbers;
  double own = 0;
  for (const std::string& text : values) {
    double number = 0;
    if (!parse_real(text, number)) return Edge::kNone;
    numbers.insert(number);
  }
  if (numbers.size() < 2 || !parse_real(value, own)) return Edge::kNone;
  if (own == *numbers.begin()) return Edge::kSmallest;
  return own == *numbers.rbegin() ? Edge::kLargest : Edge::kNone;
}

bool has_part(const RecipeFigures& figures) {
  return figures.runs > figures.unfinished;
}

std::vector<FairAxis> axes_of(const Comparison& c) {
  std::vector<FairAxis> axes = {FairAxis::kSamples, FairAxis::kSeconds};
  if (std::isfinite(c.training_loss)) axes.push_back(FairAxis::kTrainingLoss);
  if (end_at_different_samples(c)) axes.insert(axes.end(), {FairAxis::kEnd, FairAxis::kBest});
  return axes;
}

const Spread& spread_on(const RecipeFigures& figures, FairAxis axis) {
  const bool own = axis == FairAxis::kEnd || axis == FairAxis::kBest;
  return spread_of(figures, (own ? "at_" : "at_equal_") + to_string(axis));
}

std::optional<double> compared_value(const Comparison& c, const RunOutcome& run, FairAxis axis) {
  if (!ended(run)) return std::nullopt;
  if (axis == FairAxis::kBest) {
    const CurvePoint* const best = best_of(run.curve, c.terms.figure, c.terms.lower_is_better);
    return best == nullptr ? std::nullopt : figure_in(best->figures, c.terms.figure);
  }
  const std::optional<double> place = place_on(c, run, axis);
  // A run that has ended keeps the figure of its end.
  const bool beyond = axis == FairAxis::kTrainingLoss ? !place && std::isfinite(c.training_loss)
                                                      : place && place_of(run.curve.back(), axis) <= *place;
  if (axis == FairAxis::kEnd || beyond) {
    const std::optional<double> end = figure_in(run.curve.back().figures, c.terms.figure);
    return end && std::isfinite(*end) ? end : std::nullopt;
  }
  return place ? figure_at(run.curve, c.terms.figure, axis, *place) : std::nullopt;
}

Comparison analyse(ComparisonTerms terms, std::vector<RunOutcome> runs) {
  Comparison c{.terms = std::move(terms), .runs = std::move(runs)};
  c.samples = static_cast<int64_t>(common_place(c, FairAxis::kSamples));
  c.seconds = common_place(c, FairAxis::kSeconds);
  c.loss_window = loss_window(c);
  find_training_loss(c);
  for (RunOutcome& run : c.runs) {
    run.loss_place = place_of_loss(run.losses, c.training_loss, c.loss_window);
    run.below_at_first = ended(run) && first_loss(run.losses, c.loss_window) < c.training_loss;
  }
  for (size_t i = 0; i < c.terms.recipes.size(); ++i) c.recipes.push_back(figures_of(c, i));
  for (const FairAxis axis : axes_of(c)) {
    for (const Difference& difference : differences_on(c, axis)) c.differences.push_back(difference);
  }
  c.target_tests = target_tests_of(c);
  c.best = best_of(c);
  return c;
}

}  // namespace autotrain
