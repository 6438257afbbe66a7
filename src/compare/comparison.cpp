#include "compare/comparison.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "compare/compare_columns.h"

namespace autotrain {
namespace {

using Values = std::vector<double>;

// Whether a run says what its recipe comes to.
bool ended(const RunOutcome& run) {
  return !run.curve.empty() && run.share >= 1;
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

Spread spread_of(const Values& values) {
  return {mean(values), standard_deviation(values), static_cast<int64_t>(values.size())};
}

double common_place(const Comparison& c, FairAxis axis) {
  double least = std::numeric_limits<double>::infinity();
  for (const RunOutcome& run : c.runs) {
    if (ended(run)) least = std::min(least, place_of(run.curve.back(), axis));
  }
  return std::isfinite(least) ? least : 0;
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

// NaN where a run has none, or where losses are different quantities.
double common_training_loss(const Comparison& c) {
  double most = std::numeric_limits<double>::quiet_NaN();
  if (!c.terms.equal_losses) return most;
  for (const RunOutcome& run : c.runs) {
    if (!ended(run)) continue;
    const double end = run.losses.empty() ? 0 : static_cast<double>(run.losses.back().samples);
    const std::optional<double> loss = smoothed_loss(run.losses, end, c.loss_window);
    if (!loss) return std::numeric_limits<double>::quiet_NaN();
    most = std::fmax(most, *loss);
  }
  return most;
}

// Where a run is compared on an axis; nothing: nowhere.
std::optional<double> place_on(const Comparison& c, const RunOutcome& run, FairAxis axis) {
  switch (axis) {
    case FairAxis::kSamples: return static_cast<double>(c.samples);
    case FairAxis::kSeconds: return c.seconds;
    case FairAxis::kTrainingLoss: return run.loss_place;
  }
  return std::nullopt;
}

Values values_on(const Comparison& c, size_t recipe, FairAxis axis) {
  return values_of(c, recipe, [&](const RunOutcome& run) { return compared_value(c, run, axis); });
}

std::optional<double> figure_in(const std::map<std::string, double>& figures, const std::string& name) {
  const auto found = figures.find(name);
  return found == figures.end() ? std::nullopt : std::optional(found->second);
}

// Runs of one recipe are evaluated at the same updates.
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
  std::vector<BandPoint> band;
  for (const auto& [update, cell] : by_update)
    band.push_back({update, cell.samples, mean(cell.seconds), spread_of(cell.figure)});
  return band;
}

void add_gaps(RecipeFigures& figures, const Comparison& c, size_t recipe) {
  for (const RunOutcome& some : c.runs) {
    for (const auto& [name, unused] : some.training_set) {
      figures.gaps[name] =
          spread_of(values_of(c, recipe, [&](const RunOutcome& run) -> std::optional<double> {
            const auto seen = figure_in(run.training_set, name);
            const auto unseen = figure_in(run.curve.back().figures, name);
            return seen && unseen ? std::optional(*seen - *unseen) : std::nullopt;
          }));
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
    figures.sharpness.push_back(
        spread_of(values_of(c, recipe, [&](const RunOutcome& run) -> std::optional<double> {
          if (!run.sharpness || !run.sharpness->unavailable.empty()) return std::nullopt;
          return figure.of(*run.sharpness);
        })));
  }
}

RecipeFigures figures_of(const Comparison& c, size_t recipe) {
  RecipeFigures figures;
  for (const RunOutcome& run : c.runs) {
    if (run.recipe != c.terms.recipes[recipe]) continue;
    ++figures.runs;
    figures.failed += run.failure.empty() ? 0 : 1;
    figures.unfinished += run.failure.empty() && run.share < 1 ? 1 : 0;
    if (figures.plan.is_null()) figures.plan = run.plan;
  }
  const auto spread = [&](auto value) { return spread_of(values_of(c, recipe, value)); };
  figures.final =
      spread([&](const RunOutcome& run) { return figure_in(run.curve.back().figures, c.terms.figure); });
  for (const Column<ComparedRun>& column : run_columns())
    figures.spreads.push_back(spread([&](const RunOutcome& run) {
      return std::optional(number_of(column.value({c, run})));
    }));
  add_gaps(figures, c, recipe);
  add_sharpness(figures, c, recipe);
  figures.curve = band_of(c, recipe);
  return figures;
}

Difference::Verdict verdict_of(const Difference& d, bool lower_is_better) {
  if (std::isnan(d.p_holm)) return Difference::Verdict::kNotTested;
  if (d.p_holm >= kFalseAlarms) return Difference::Verdict::kNotDistinguishable;
  return (d.mean < 0) == lower_is_better ? Difference::Verdict::kBetter : Difference::Verdict::kWorse;
}

// All pairs on one axis: one family of tests.
std::vector<Difference> differences_on(const Comparison& c, FairAxis axis) {
  std::vector<Difference> family;
  std::vector<double> p;
  for (const auto& [a, b] : c.terms.pairs) {
    const Values of_a = values_on(c, a, axis), of_b = values_on(c, b, axis);
    const double welch = welch_test(of_a, of_b).p;
    family.push_back({.a = a,
                      .b = b,
                      .axis = axis,
                      .mean = mean(of_b) - mean(of_a),
                      .interval = bootstrap_difference(of_a, of_b),
                      .p = welch});
    p.push_back(welch);
  }
  const auto tests = std::count_if(p.begin(), p.end(), [](double value) { return !std::isnan(value); });
  const std::vector<double> corrected = holm(p);
  for (size_t i = 0; i < family.size(); ++i) {
    Difference& d = family[i];
    d.p_holm = corrected[i];
    d.verdict = verdict_of(d, c.terms.lower_is_better);
    if (d.verdict != Difference::Verdict::kNotDistinguishable) continue;
    // At the level of Holm's first step, the strictest.
    d.runs_needed =
        runs_needed(d.mean, standard_deviation(values_on(c, d.a, axis)),
                    standard_deviation(values_on(c, d.b, axis)), kFalseAlarms / static_cast<double>(tests));
  }
  return family;
}

}  // namespace

std::vector<FairAxis> axes_of(const Comparison& c) {
  std::vector<FairAxis> axes = {FairAxis::kSamples, FairAxis::kSeconds};
  if (std::isfinite(c.training_loss)) axes.push_back(FairAxis::kTrainingLoss);
  return axes;
}

const Spread& spread_on(const RecipeFigures& figures, FairAxis axis) {
  return spread_of(figures, "at_equal_" + to_string(axis));
}

std::optional<double> compared_value(const Comparison& c, const RunOutcome& run, FairAxis axis) {
  if (!ended(run)) return std::nullopt;
  const std::optional<double> place = place_on(c, run, axis);
  return place ? figure_at(run.curve, c.terms.figure, axis, *place) : std::nullopt;
}

Comparison analyse(ComparisonTerms terms, std::vector<RunOutcome> runs) {
  Comparison c{.terms = std::move(terms), .runs = std::move(runs)};
  c.samples = static_cast<int64_t>(common_place(c, FairAxis::kSamples));
  c.seconds = common_place(c, FairAxis::kSeconds);
  c.loss_window = loss_window(c);
  c.training_loss = common_training_loss(c);
  for (RunOutcome& run : c.runs) run.loss_place = place_of_loss(run.losses, c.training_loss, c.loss_window);
  for (size_t i = 0; i < c.terms.recipes.size(); ++i) c.recipes.push_back(figures_of(c, i));
  for (const FairAxis axis : axes_of(c)) {
    for (const Difference& difference : differences_on(c, axis)) c.differences.push_back(difference);
  }
  return c;
}

}  // namespace autotrain
