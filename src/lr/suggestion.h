#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "autotrain/plan.h"
#include "lr/rate_curve.h"

namespace autotrain {

/// Significant digits in which a rate is shown that was found: a test knows no more.
inline constexpr int kRateDigits = 3;

/// How many times smaller than the edge, and than the valley's end, a suggestion is at least.
inline constexpr double kBelowEdge = 4, kBelowValleyEnd = 3;

/// Rates that several stretches gave.
struct RateSpread {
  double mean = 0;    ///< geometric
  double spread = 1;  ///< greatest ÷ least
};

/// Nothing of no rates.
std::optional<RateSpread> spread_of(const std::vector<double>& rates);

/// What range tests come to.
struct RateSuggestion {
  std::optional<RateSpread> edge = {}, steepest = {}, valley_end = {};  ///< of the stretches that have one

  /// The geometric mean over the stretches of the smaller of a quarter of the edge and a third of the
  /// valley's end, at the plan's effective batch. Nothing: undetermined.
  std::optional<double> lr = {};

  /// The same as the recipe has it: optimizer.lr, at optimizer.reference_batch.
  std::optional<double> recipe_lr = {};

  std::string why_not = {};  ///< a sentence; "" where there is a suggestion
};

/// How a range test reads the training data.
struct RangeReading {
  int64_t effective_batch = 0;  ///< samples that an update reads
  int64_t samples = 0;          ///< there are; 0: not known
};

/// How often the average sample was read in a stretch while the rate grew.
double times_read(const RateStretch& stretch, const RangeReading& reading);

/// Suggests a rate only where every stretch has one, they agree within a factor of 3, and the loss did not
/// fall because the same few samples were read over and over: ten times or more at rates from a tenth of the
/// steepest to the valley's end.
/// @param plan whose learning-rate rule is undone for `recipe_lr`.
RateSuggestion suggest(const std::vector<RateStretch>& stretches, const LearningRatePlan& plan,
                       const RangeReading& reading = {});

/// A range test of a recipe, and what it comes to.
struct LearningRateTest {
  std::string name = {};  ///< the recipe's
  BatchPlan plan = {};    ///< with the micro-batch that the test ran
  std::optional<double> clip_norm = {};
  int64_t updates = 0;  ///< of the checkpoint from which it began; 0: from the first weights
  int64_t samples = 0;  ///< of the training data; 0: not known
  std::vector<RateStretch> stretches = {};
  RateSuggestion suggestion = {};
  nlohmann::ordered_json definition = {};  ///< everything that decides what is found (definition_of)

  RangeReading reading() const { return {plan.effective_batch, samples}; }
};

}  // namespace autotrain
