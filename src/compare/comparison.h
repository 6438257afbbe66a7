#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autotrain/figures.h"
#include "compare/curve.h"
#include "study/statistics.h"

namespace autotrain {

/// What one run of a comparison came to.
struct RunOutcome {
  std::string recipe = {};  ///< its label
  int64_t seed = 0;
  std::string failure = {};  ///< why there is nothing else; "": there is
  int code = 0;              ///< exit code, or minus the signal that killed it
  nlohmann::ordered_json plan =
      nullptr;  ///< {device_name, precision, effective_batch, micro_batch, window, lr}
  double samples_per_second = 0;
  int64_t peak_bytes = 0;
  Curve curve = {};
  std::map<std::string, double> training_set = {};  ///< figures of the final weights there; empty: not asked
  FigureKinds figure_kinds = {};                    ///< of its evaluations
};

/// A key that not every recipe gives the same value.
struct DifferingKey {
  std::string path = {};
  std::vector<std::string> values = {};  ///< as YAML, one for each recipe
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
};

/// A value over the seeds; of runs that have none nothing counts.
struct Spread {
  double mean = 0;
  double deviation = 0;  ///< NaN of a single value
  int64_t count = 0;
};

/// The figure of one recipe over its seeds at one evaluation.
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
  nlohmann::ordered_json plan = nullptr;  ///< of the first run that has one
  Spread final = {}, at_samples = {}, at_seconds = {};
  Spread target_updates = {}, target_samples = {}, target_seconds = {};  ///< of the runs that reached it
  Spread samples_per_second = {}, peak_bytes = {}, training_seconds = {};
  std::map<std::string, Spread> gaps = {};  ///< by figure: training set − validation
  std::vector<BandPoint> curve = {};
};

/// The difference of two recipes on one axis: b − a.
struct Difference {
  enum class Verdict { kBetter, kWorse, kNotDistinguishable, kNotTested };
  size_t a = 0, b = 0;  ///< recipes
  FairAxis axis = FairAxis::kSamples;
  double mean = 0;
  ConfidenceInterval interval = {};
  double p = 0;                             ///< Welch's test
  double p_holm = 0;                        ///< corrected over all pairs of this axis
  Verdict verdict = Verdict::kNotTested;    ///< of b
  std::optional<int64_t> runs_needed = {};  ///< of each recipe, to tell them apart if they differ as it seems
};

constexpr auto enum_names(Difference::Verdict) {
  using Verdict = Difference::Verdict;
  return std::array{EnumName<Verdict>{Verdict::kBetter, "better"},
                    EnumName<Verdict>{Verdict::kWorse, "worse"},
                    EnumName<Verdict>{Verdict::kNotDistinguishable, "not_distinguishable"},
                    EnumName<Verdict>{Verdict::kNotTested, "not_tested"}};
}

/// What differences must stay below to be told apart: the chance that one of an axis's verdicts "better" or
/// "worse" is false when nothing differs.
inline constexpr double kFalseAlarms = 0.05;

struct Comparison {
  ComparisonTerms terms = {};
  std::vector<RunOutcome> runs = {};
  int64_t samples = 0;  ///< where equal samples are compared: the least that a run trained on
  double seconds = 0;   ///< likewise
  std::vector<RecipeFigures> recipes = {};
  std::vector<Difference> differences = {};
};

/// All figures from what the runs left. Pure.
Comparison analyse(ComparisonTerms terms, std::vector<RunOutcome> runs);

/// compare.json; what cannot be computed again from the rest included, for those who read it.
nlohmann::ordered_json comparison_to_json(const Comparison& comparison);

/// From compare.json. @throws nlohmann::json::exception when a field is missing or of the wrong type.
Comparison comparison_from_json(const nlohmann::ordered_json& json);

/// compare.csv: a row for each run.
std::string comparison_to_csv(const Comparison& comparison);

nlohmann::ordered_json outcome_to_json(const RunOutcome& outcome);
RunOutcome outcome_from_json(const nlohmann::ordered_json& json);

}  // namespace autotrain
