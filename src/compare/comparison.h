#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autotrain/figures.h"
#include "study/curve.h"
#include "study/sharpness_figures.h"
#include "study/statistics.h"
#include "study/training_loss.h"

namespace autotrain {

/// What one run of a comparison came to.
struct RunOutcome {
  std::string recipe = {};  ///< its label
  int64_t seed = 0;
  double share = 1;          ///< of the whole run that was trained; below 1: halving has not gone further
  std::string failure = {};  ///< why there is nothing else; "": there is

  /// Why a run that has not failed has no end yet ("is not finished"): it ought to have a value and counts
  /// for none, nor as a failure. "": it has ended, failed, or halving left it.
  std::string unfinished = {};
  int code = 0;  ///< exit code, or minus the signal that killed it
  nlohmann::ordered_json plan =
      nullptr;  ///< {device_name, precision, effective_batch, micro_batch, window, lr}
  double samples_per_second = 0;
  int64_t peak_bytes = 0;
  Curve curve = {};
  LossSums losses = {};  ///< of its updates; empty: not known

  /// Set by `analyse`: where its smoothed loss first came down to Comparison::training_loss, in samples;
  /// unset: nowhere.
  std::optional<double> loss_place = {};

  /// Set by `analyse`: its loss was below that already where it was first smoothed, so the two are not equal.
  bool below_at_first = false;
  std::map<std::string, double> training_set = {};  ///< figures of the final weights there; empty: not asked
  std::optional<Sharpness> sharpness = {};          ///< of the final weights; unset: not asked
  FigureKinds figure_kinds = {};                    ///< of its evaluations
  std::vector<std::string> warnings = {};           ///< that its log has, each once
};

/// A key that not every recipe gives the same value, or that a grid varies.
struct DifferingKey {
  std::string path = {};
  std::vector<std::string> values = {};  ///< as YAML, one for each recipe
};

/// A rung of successive halving.
struct Rung {
  double share = 1;                  ///< of a whole run, at which it ends
  std::vector<double> medians = {};  ///< of the figure over the seeds, by recipe; NaN: not in it, or not yet
};

/// A value of a key that was tuned, and what a run came to with it.
struct TunedValue {
  std::string value = {};                                    ///< as YAML
  double figure = std::numeric_limits<double>::quiet_NaN();  ///< at its end; NaN: it failed
};

struct TunedRecipe {
  std::vector<TunedValue> tried = {};
  size_t best = 0;       ///< of these; the recipe has it
  bool at_edge = false;  ///< the best is the smallest or the largest number of those that were tried
};

/// A key of which each recipe got the value that was best for it, in one run each, before they were compared.
struct Tuning {
  std::string key = {};
  int64_t seed = 0;  ///< of those runs, which is none of the comparison's
  std::vector<TunedRecipe> recipes = {};
};

/// What the final weights of a run came to on the test data, which chose nothing.
struct TestReading {
  size_t recipe = 0;  ///< of the comparison's
  int64_t seed = 0;
  std::map<std::string, double> figures = {};
};

/// How a comparison was made, for those who make it again.
struct Provenance {
  std::string command = {};  ///< "": not known
  std::string date = {};     ///< when it was written last, UTC
  std::string program = {};  ///< the version that wrote it
  std::vector<std::map<std::string, std::string>> data =
      {};  ///< fingerprints by recipe, by "data.train"; or empty
};

/// What is compared, and how.
struct ComparisonTerms {
  std::string machine = {};
  std::vector<std::string> recipes = {};  ///< labels
  std::vector<int64_t> seeds = {};
  std::string figure = {};  ///< that differences are about
  bool lower_is_better = false;
  std::optional<Target> target = {};
  std::vector<std::pair<size_t, size_t>> pairs = {};  ///< of recipes, whose differences are tested together
  std::vector<DifferingKey> differing_keys = {};
  std::vector<std::string> warnings = {};  ///< why it is not fair
  std::vector<Rung> rungs = {};            ///< of successive halving; empty: it was not asked for
  std::vector<DifferingKey> axes = {};  ///< of the grid that the recipes are points of; empty: they are none

  bool paired = false;  ///< whether the runs of two recipes are tested in pairs of the same seed

  /// Differences below it do not matter, in the figure's own measure; unset: nobody said.
  std::optional<double> margin = {};

  /// With how many seeds this study was looked at before, with its verdicts in view; the present number is
  /// not among them.
  std::vector<int64_t> looks = {};

  /// Runs of the study are still to come: nothing is tested, or whoever watches would have a look after each.
  bool so_far = false;

  std::optional<Tuning> tuned = {};  ///< unset: recipes have the values that were written

  /// By the runs of the best recipe and of those that cannot be told from it; empty: nothing was read.
  std::vector<TestReading> test = {};

  Provenance provenance = {};

  /// Whether the losses of all updates are the same quantity, so that runs can be made equal in them.
  bool equal_losses = true;
};

/// A value over the seeds; of runs that have none nothing counts.
struct Spread {
  double mean = 0;
  double deviation = 0;  ///< NaN of a single value
  int64_t count = 0;
  int64_t runs = 0;  ///< of which `count` have a value

  bool complete() const { return count > 0 && count == runs; }
};

/// The figure of one recipe over its seeds at one evaluation, at which every one of its runs has it.
struct BandPoint {
  int64_t update = 0;
  int64_t samples = 0;
  double seconds = 0;  ///< mean
  Spread figure = {};
};

/// What a recipe came to.
struct RecipeFigures {
  int64_t runs = 0;
  int64_t failed = 0;
  int64_t unfinished = 0;                   ///< that have no end yet, or that halving has not taken there
  ConfidenceInterval failed_share = {};     ///< of runs that fail, 95 %; {0, 0} without runs
  nlohmann::ordered_json plan = nullptr;    ///< of the first run that has one
  Spread final = {};                        ///< the compared figure at the end
  std::vector<Spread> spreads = {};         ///< by column of run_columns(), of the runs that have a value
  std::map<std::string, Spread> gaps = {};  ///< by figure: training set − validation
  std::vector<Spread> sharpness = {};       ///< by figure of sharpness_figures(); empty: not asked
  std::string no_sharpness = {};            ///< why one of its runs has none; "": all have, or were not asked
  std::vector<BandPoint> curve = {};

  // Of the way to the target, where there is one. Runs that failed never reach it.
  ConfidenceInterval reached_share = {};  ///< of runs that reach it by Comparison::samples, 95 %
  int64_t reached = 0;                    ///< runs that did
  Spread restricted = {};                 ///< samples until then, at most Comparison::samples
  double olympic_samples = std::numeric_limits<double>::quiet_NaN();  ///< without the best and the worst run
};

/// Whether two recipes come to the target differently soon, in samples: a log-rank test.
struct TargetTest {
  size_t a = 0, b = 0;
  double statistic = 0;  ///< above 0: b reaches it sooner, or more often
  double p = 0;          ///< NaN: not tested
  double p_holm = 0;
};

inline constexpr Estimate kNoEstimate = {
    std::numeric_limits<double>::quiet_NaN(),
    {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::quiet_NaN()}};

/// The difference of two recipes on one axis: b − a.
struct Difference {
  enum class Verdict {
    kBetter,
    kWorse,
    kNotDistinguishable,
    kNotTested,      ///< one of them has fewer than two values
    kRunsMissing,    ///< one of them has runs without a value: those that are left may be the better ones
    kNotComparable,  ///< their figures are different quantities
    kNoSpread,       ///< neither varies over the seeds, so nothing tells what chance does
    kEquivalent,     ///< the same within the margin
  };
  size_t a = 0, b = 0;  ///< recipes
  FairAxis axis = FairAxis::kSamples;
  double mean = 0;                          ///< NaN where nothing may be said
  ConfidenceInterval interval = {};         ///< 95 %, of this difference alone
  double p = 0;                             ///< Welch's test
  double p_holm = 0;                        ///< corrected over all pairs of this axis
  Verdict verdict = Verdict::kNotTested;    ///< of b
  std::optional<int64_t> runs_needed = {};  ///< of each recipe, to tell them apart if they differ as it seems
  std::string reason = {};                  ///< why nothing may be said; "": something may

  Estimate effect = kNoEstimate;           ///< Hedges' g: b − a in standard deviations
  Estimate chance_better = kNoEstimate;    ///< that a run of b is better than one of a
  double correlation = kNoEstimate.value;  ///< of the runs of the same seeds; NaN: the seeds are not the same
  double p_paired = kNoEstimate.value;     ///< of the paired test, corrected like p_holm
  double p_welch = kNoEstimate.value;      ///< of Welch's, likewise
  double p_equivalent = kNoEstimate.value;  ///< that they differ by the margin or more; corrected
};

constexpr auto enum_names(Difference::Verdict) {
  using Verdict = Difference::Verdict;
  return std::array{EnumName<Verdict>{Verdict::kBetter, "better"},
                    EnumName<Verdict>{Verdict::kWorse, "worse"},
                    EnumName<Verdict>{Verdict::kNotDistinguishable, "not_distinguishable"},
                    EnumName<Verdict>{Verdict::kNotTested, "not_tested"},
                    EnumName<Verdict>{Verdict::kRunsMissing, "runs_missing"},
                    EnumName<Verdict>{Verdict::kNotComparable, "not_comparable"},
                    EnumName<Verdict>{Verdict::kNoSpread, "no_spread"},
                    EnumName<Verdict>{Verdict::kEquivalent, "equivalent"}};
}

/// What differences must stay below to be told apart: the chance that one of an axis's verdicts "better" or
/// "worse" is false when nothing differs.
inline constexpr double kFalseAlarms = 0.05;

/// What p must stay below for a verdict: half as much after each look at fewer seeds, so that all looks
/// together raise less than twice as many false alarms as one.
double verdict_level(const ComparisonTerms& terms);

/// Says whether one of several values is their smallest or largest number.
enum class Edge { kNone, kSmallest, kLargest };

/// @param values as YAML, in any order; none of them is at an edge where one is no number, or all are one.
Edge edge_of(const std::vector<std::string>& values, const std::string& value);

/// The best recipe at equal samples, as far as it may be named.
struct BestRecipe {
  std::optional<size_t> recipe = {};  ///< unset: none may be named

  /// Those that these runs cannot tell from it; where none is named, those of which any may be it, if that is
  /// known of some.
  std::vector<size_t> alike = {};
  std::vector<std::pair<size_t, std::string>> left_out = {};  ///< recipes that had no part in it, and why
  std::string why_none = {};                                  ///< why none may be named at all
};

struct Comparison {
  ComparisonTerms terms = {};
  std::vector<RunOutcome> runs = {};

  /// Equal samples are compared where the runs of the shortest recipe end, in their median. A run that ended
  /// before keeps the figure of its end.
  int64_t samples = 0;
  double seconds = 0;  ///< likewise

  /// Where equal training losses are compared: the smoothed loss with which the recipe ends that learned
  /// least, in the median of its runs. A run that never comes there keeps the figure of its end. NaN: runs
  /// cannot be made equal in it.
  double training_loss = std::numeric_limits<double>::quiet_NaN();
  size_t least_learned = 0;  ///< the recipe that has it; of none where there is no such loss
  double loss_window = 0;    ///< samples whose mean is a smoothed loss

  std::vector<RecipeFigures> recipes = {};
  std::vector<Difference> differences = {};
  std::vector<TargetTest> target_tests = {};  ///< of the pairs; empty: no target
  BestRecipe best = {};
};

/// All figures from what the runs left. Pure.
Comparison analyse(ComparisonTerms terms, std::vector<RunOutcome> runs);

/// In what its runs can be made equal. Their own ends and bests are among it where they end at different
/// samples.
std::vector<FairAxis> axes_of(const Comparison& comparison);

/// The compared figure of a recipe, or of a run (nothing: it has none there), where runs are equal in this.
const Spread& spread_on(const RecipeFigures& figures, FairAxis axis);
std::optional<double> compared_value(const Comparison& comparison, const RunOutcome& run, FairAxis axis);

/// The compared figure of a recipe's runs that have one there, in the order of the runs.
std::vector<double> values_on(const Comparison& comparison, size_t recipe, FairAxis axis);

/// Mean and deviation of values that so many runs ought to have.
Spread spread_of(const std::vector<double>& values, int64_t runs);

/// Says which runs of a recipe have no value on an axis, and why: "3 of 5 runs failed (seeds 1, 2, 4)"; "":
/// all have one.
std::string missing_runs(const Comparison& comparison, size_t recipe, FairAxis axis);

/// The seeds of the runs of a recipe that ought to have a value, in ascending order.
std::vector<int64_t> seeds_of(const Comparison& comparison, size_t recipe);

/// Whether two recipes came to the same compared figure with every seed that both have, and at least with
/// one.
bool same_figures(const Comparison& comparison, size_t a, size_t b);

/// The other figures in which runs of two recipes with one seed ended differently.
std::vector<std::string> other_figures_differing(const Comparison& comparison, size_t a, size_t b);

/// Whether any of a recipe's runs was made to its end or failed; halving may have left it out before, or all
/// are still under way.
bool has_part(const RecipeFigures& figures);

/// compare.json; what cannot be computed again from the rest included, for those who read it.
nlohmann::ordered_json comparison_to_json(const Comparison& comparison);

/// From compare.json. @throws nlohmann::json::exception when a field is missing or of the wrong type.
Comparison comparison_from_json(const nlohmann::ordered_json& json);

/// compare.csv: a row for each run.
std::string comparison_to_csv(const Comparison& comparison);

nlohmann::ordered_json outcome_to_json(const RunOutcome& outcome);
RunOutcome outcome_from_json(const nlohmann::ordered_json& json);

}  // namespace autotrain
