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

/// Suggests a rate only where every stretch has one and they agree within a factor of 3.
/// @param plan whose learning-rate rule is undone for `recipe_lr`.
RateSuggestion suggest(const std::vector<RateStretch>& stretches, const LearningRatePlan& plan);

/// A range test of a recipe, and what it comes to.
struct LearningRateTest {
  std::string name = {};  ///< the recipe's
  BatchPlan plan = {};    ///< with the micro-batch that the test ran
  std::optional<double> clip_norm = {};
  int64_t updates = 0;  ///< of the checkpoint from which it began; 0: from the first weights
  std::vector<RateStretch> stretches = {};
  RateSuggestion suggestion = {};
  nlohmann::ordered_json definition = {};  ///< everything that decides what is found (definition_of)
};

}  // namespace autotrain
