#include "model/ranking.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace autotrain {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

}  // namespace

Ranking rank(std::span<const float> scores, std::span<const uint8_t> positive) {
  const auto is_nan = [](float score) { return std::isnan(score); };
  if (std::any_of(scores.begin(), scores.end(), is_nan)) return {kUnknown, kUnknown};
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });

  double above = 0, below = 0;  // positives and negatives that were passed
  double pairs = 0;             // (positive, negative) in the right order; ties count half
  double precision_sum = 0;
  for (size_t begin = 0; begin < order.size();) {
    double tied_positives = 0, tied_negatives = 0;
    size_t end = begin;
    for (; end < order.size() && scores[order[end]] == scores[order[begin]]; ++end) {
      (positive[order[end]] != 0 ? tied_positives : tied_negatives) += 1;
    }
    pairs += tied_negatives * (above + tied_positives / 2);
    above += tied_positives;
    below += tied_negatives;
    precision_sum += tied_positives * above / (above + below);
    begin = end;
  }
  return {.roc_auc = above > 0 && below > 0 ? pairs / (above * below) : kUnknown,
          .average_precision = above > 0 ? precision_sum / above : kUnknown};
}

BinnedRanking rank_bins(std::span<const double> positives, std::span<const double> negatives) {
  double above = 0, below = 0, pairs = 0, open_pairs = 0, least = 0, most = 0;
  for (size_t bin = positives.size(); bin-- > 0;) {
    const double p = positives[bin], n = negatives[bin];
    pairs += n * (above + p / 2);
    open_pairs += n * p / 2;
    // The worst order within the bin has its negatives first; the best has its positives first, all alike.
    for (double j = 1; j <= p; ++j) least += (above + j) / (above + j + below + n);
    if (p > 0) most += p * (above + p) / (above + p + below);
    above += p;
    below += n;
  }
  BinnedRanking r;
  const double all = above * below;
  r.roc_auc = all > 0 ? Bounded{pairs / all, open_pairs / all} : Bounded{kUnknown, kUnknown};
  r.average_precision = above > 0 ? Bounded{(most + least) / (2 * above), (most - least) / (2 * above)}
                                  : Bounded{kUnknown, kUnknown};
  return r;
}

}  // namespace autotrain
