#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace autotrain {

/// How well scores put positives before negatives. NaN where one of the two does not occur, or a score is
/// NaN.
struct Ranking {
  double roc_auc = 0;            ///< probability that a positive scores above a negative; ties count half
  double average_precision = 0;  ///< Σ (recall gained) × precision, going down the scores; ties together
};

/// Exact, as scikit-learn's roc_auc_score and average_precision_score have it.
/// @param scores, positive one of each a sample.
Ranking rank(std::span<const float> scores, std::span<const uint8_t> positive);

/// A value and the most by which the exact one can differ from it.
struct Bounded {
  double value = 0;
  double error = 0;
};

struct BinnedRanking {
  Bounded roc_auc;
  Bounded average_precision;
};

/// From counts of positives and negatives in bins of ascending scores. The error is what the unknown order
/// within each bin leaves open.
BinnedRanking rank_bins(std::span<const double> positives, std::span<const double> negatives);

}  // namespace autotrain
