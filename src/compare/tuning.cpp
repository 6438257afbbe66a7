#include "compare/tuning.h"

#include <algorithm>
#include <cmath>

#include "autotrain/error.h"
#include "base/text.h"
#include "recipe/axes.h"
#include "recipe/load.h"
#include "recipe/sections.h"
#include "recipe/writer.h"
#include "state/catalog.h"

namespace autotrain {
namespace {

constexpr int64_t kTuningSeed = 1'000'000;  // far from those of a study
constexpr double kFactor = 3;

Recipe with_value(const Recipe& recipe, const std::string& key, const std::string& value) {
  return load_recipe_text(write_recipe(recipe, catalog()), recipe.name, catalog(),
                          {.overrides = {cat(key, "=", value)}});
}

// The number above 0 that a recipe gives the key.
double own_value(const NamedRecipe& named, const std::string& key) {
  Recipe recipe = named.recipe;
  for (const Section& section : sections_of(recipe, catalog())) {
    const std::string prefix = section.path.empty() ? "" : section.path + ".";
    for (const Field& field : section.fields) {
      if (prefix + field.spec.name != key) continue;
      const Value value = field.get();
      if (const auto* number = std::get_if<double>(&value); number != nullptr && *number > 0) return *number;
    }
  }
  throw Error(ExitCode::kUsage, "--tune", cat(quote(key), " is no number above 0 of ", named.label),
              cat("name a number such as optimizer.lr, or give the values: --tune ", key, "=…"));
}

// What one recipe tries.
class Trials {
 public:
  Trials(const NamedRecipe& named, const TuneOptions& options) : named_(named), options_(options) {
    if (!options.values.empty()) {
      for (const std::string& value : options.values) tried_.push_back({.value = value});
      return;
    }
    own_ = own_value(named, options.key);
    for (int64_t i = -(options.runs / 2); i <= options.runs / 2; ++i) {
      if (TunedValue trial = trial_of(i); is_possible(trial)) tried_.push_back(std::move(trial));
    }
  }

  const std::vector<TunedValue>& tried() const { return tried_; }

  std::vector<NamedRecipe> recipes() const {
    std::vector<NamedRecipe> recipes;
    for (const TunedValue& trial : tried_) {
      recipes.push_back({cat(named_.label, ' ', last_part(options_.key), '=', trial.value),
                         with_value(named_.recipe, options_.key, trial.value), named_.from});
    }
    return recipes;
  }

  void set_figure(size_t trial, double figure) { tried_[trial].figure = figure; }

  /// @throws Error(kDiverged) where none has a figure.
  size_t best(bool lower_is_better) const {
    const auto worth = [&](const TunedValue& trial) {
      if (!std::isfinite(trial.figure)) return -std::numeric_limits<double>::infinity();
      return lower_is_better ? -trial.figure : trial.figure;
    };
    const auto found = std::ranges::max_element(tried_, {}, worth);
    if (!std::isfinite(worth(*found))) {
      throw Error(
          ExitCode::kDiverged, "--tune",
          cat("no run of ", named_.label, " came to its end with a figure, whatever ", options_.key, " was"),
          "look at the logs of its runs, or give other values");
    }
    return static_cast<size_t>(found - tried_.begin());
  }

  bool at_edge(size_t best) const {
    std::vector<std::string> values;
    for (const TunedValue& trial : tried_) values.push_back(trial.value);
    return edge_of(values, values[best]) != Edge::kNone;
  }

  /// One more beyond the best, where that is at the edge of what was tried around the recipe's own value.
  /// @return whether there is one.
  bool widen(size_t best) {
    if (!options_.values.empty() || !at_edge(best) || further_ == options_.most_further) return false;
    ++further_;
    const int64_t beyond = options_.runs / 2 + (best == 0 ? ++below_ : ++above_);
    const TunedValue trial = trial_of(best == 0 ? -beyond : beyond);
    if (!is_possible(trial)) return false;
    tried_.insert(best == 0 ? tried_.begin() : tried_.end(), trial);
    return true;
  }

 private:
  // Its own value as it is, the others to three digits.
  TunedValue trial_of(int64_t power) const {
    if (power == 0) return {.value = shortest(own_)};
    const double value = own_ * std::pow(kFactor, static_cast<double>(power));
    const double digits = std::pow(10, 2 - std::floor(std::log10(value)));
    return {.value = shortest(std::round(value * digits) / digits)};
  }

  // Whether it is within the key's range.
  bool is_possible(const TunedValue& trial) const {
    try {
      with_value(named_.recipe, options_.key, trial.value);
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  const NamedRecipe& named_;
  const TuneOptions& options_;
  double own_ = 0;
  std::vector<TunedValue> tried_;  // ascending, where they are around the recipe's own
  int64_t further_ = 0, below_ = 0, above_ = 0;
};

}  // namespace

void tune(CompareOptions& study, const TuneOptions& options,
          const std::function<Comparison(const CompareOptions&)>& compare) {
  for (const DifferingKey& axis : study.axes) {
    if (std::ranges::count(Axis{axis.path}.keys(), options.key) > 0)
      throw Error(ExitCode::kUsage, "--tune", cat(options.key, " is what --vary varies"),
                  "tune another key, or leave one of the two out");
  }
  std::vector<Trials> trials;
  for (const NamedRecipe& named : study.recipes) trials.emplace_back(named, options);
  CompareOptions tuning = study;
  tuning.folder = study.folder / "tuning";
  tuning.seeds = 1;
  tuning.first_seed = kTuningSeed;
  tuning.training_set = tuning.sharpness = tuning.paired = tuning.reads_test = false;
  tuning.pairs.clear();
  tuning.axes.clear();
  tuning.halving.reset();
  tuning.margin.reset();
  for (bool wider = true; wider;) {
    tuning.recipes.clear();
    for (const Trials& each : trials) std::ranges::move(each.recipes(), std::back_inserter(tuning.recipes));
    const Comparison found = compare(tuning);
    size_t at = 0;
    wider = false;
    study.tuned = Tuning{.key = options.key, .seed = kTuningSeed};
    for (size_t i = 0; i < trials.size(); ++i) {
      for (size_t trial = 0; trial < trials[i].tried().size(); ++trial) {
        const Spread& end = found.recipes[at++].final;
        trials[i].set_figure(trial, end.complete() ? end.mean : std::numeric_limits<double>::quiet_NaN());
      }
      const size_t best = trials[i].best(found.terms.lower_is_better);
      study.tuned->recipes.push_back(
          {.tried = trials[i].tried(), .best = best, .at_edge = trials[i].at_edge(best)});
      wider |= trials[i].widen(best);
    }
  }
  for (size_t i = 0; i < trials.size(); ++i) {
    const TunedRecipe& tuned = study.tuned->recipes[i];
    study.recipes[i].recipe = with_value(study.recipes[i].recipe, options.key, tuned.tried[tuned.best].value);
  }
}

}  // namespace autotrain
