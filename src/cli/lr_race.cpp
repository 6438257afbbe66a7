#include "cli/lr_race.h"

#include <CLI/CLI.hpp>
#include <cmath>

#include "base/text.h"
#include "compare/converge.h"

namespace autotrain {
namespace {

// A run counts as diverged, too, that came to its end with a figure that is not finite.
void count_losses(Racer& racer, const std::string& label, const Comparison& found) {
  for (const RunOutcome& run : found.runs) {
    if (run.recipe != label) continue;
    if (run.failure.empty()) {
      racer.diverged += std::isfinite(run.curve.back().figures.at(found.terms.figure)) ? 0 : 1;
    } else {
      ++(run.code == static_cast<int>(ExitCode::kDiverged) ? racer.diverged : racer.failed);
    }
  }
}

bool is_tested(Difference::Verdict verdict) {
  using Verdict = Difference::Verdict;
  return verdict == Verdict::kBetter || verdict == Verdict::kWorse || verdict == Verdict::kEquivalent ||
         verdict == Verdict::kNotDistinguishable;
}

// Beside the winner, by the test at equal samples.
void tell_apart(RateRace& race, const Comparison& found) {
  using Verdict = Difference::Verdict;
  const std::vector<size_t> order = finishing_order(race);
  for (const Difference& d : found.differences) {
    if (order.empty() || d.axis != FairAxis::kSamples) continue;
    if (d.a != order[0] && d.b != order[0]) continue;
    const bool b_won = d.b == order[0];
    Racer& other = race.racers[b_won ? d.a : d.b];
    if (!is_tested(d.verdict)) {
      other.not_tested_because = d.reason;
      continue;
    }
    other.told_apart = d.verdict == (b_won ? Verdict::kBetter : Verdict::kWorse);
    other.contradicted = d.verdict == (b_won ? Verdict::kWorse : Verdict::kBetter);
    other.seeds_needed = d.runs_needed;
  }
}

}  // namespace

CLI::Validator learning_rate() {
  return number_from(1e-12, 1e6);
}

void RaceOptions::declare(CLI::App& app) {
  app.add_flag("--race", race,
               "Also race a few rates by successive halving, around what the range test says, and name the "
               "winner; one that is in --output is gone on with");
  app.add_option("--rates", rates,
                 "Of --race: values of optimizer.lr, beside the recipe's own; no range test is made then")
      ->delimiter(',')
      ->check(learning_rate())
      ->type_name("X,X,…");
  app.add_option("--seeds", seeds, "Of --race: runs of each rate, seeds 1 to this")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app.add_option("--figure", figure,
                 "Of --race: the figure of the validation data that decides; default: "
                 "evaluation.monitor")
      ->type_name("FIGURE");
}

void RaceOptions::check(const CLI::App& app) const {
  if (!race) return refuse_without("--race", app, {"--rates", "--seeds", "--figure"});
  refuse_options(app, {"--run", "--checkpoint"},
                 "names trained weights, and a race trains from the first ones",
                 "leave it out: autotrain lr --config R.yaml --race");
  if (rates.empty()) return;
  refuse_options(app, {"--from", "--to", "--factor", "--stretches", "--hold", "--fresh-plan"},
                 "is of the range test, which is not made where --rates names the rates",
                 "leave one of them out");
}

CompareOptions comparison_of(const RecipeOptions& recipe, const RaceOptions& race,
                             const std::vector<double>& rates) {
  Axis axis{.key = "optimizer.lr"};
  for (const double rate : rates) axis.values.push_back(shortest(rate));
  CompareOptions compare =
      convergence({.config = recipe.config, .overrides = recipe.overrides, .axes = {std::move(axis)}});
  compare.training_set = false;
  compare.seeds = race.seeds;
  compare.figure = race.figure;
  compare.halving = kRaceRules;
  return compare;
}

RateRace race_of(const Comparison& found, const RateGrid& grid, const Recipe& recipe) {
  const ComparisonTerms& terms = found.terms;
  RateRace race{.figure = terms.figure,
                .lower_is_better = terms.lower_is_better,
                .seeds = std::ssize(terms.seeds),
                .own_lr = recipe.optimizer.lr,
                .reference_batch = recipe.optimizer.reference_batch,
                .grid = grid.origin};
  for (const Rung& rung : terms.rungs) race.shares.push_back(rung.share);
  for (size_t i = 0; i < grid.rates.size(); ++i) {
    Racer& racer = race.racers.emplace_back(Racer{.lr = grid.rates[i]});
    for (const Rung& rung : terms.rungs) racer.medians.push_back(rung.medians[i]);
    count_losses(racer, terms.recipes[i], found);
  }
  tell_apart(race, found);
  return race;
}

}  // namespace autotrain
