#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace autotrain {

/// Statistics of a handful of measurements. No value may be NaN or infinite: what a failed or diverged run
/// did not give is left out before. A result that the values do not allow is NaN. docs/compare.md says which
/// formula is used why.

std::vector<double> finite_values(std::span<const double> values);  ///< in their order, without the others

double mean(std::span<const double> values);                ///< NaN of none
double standard_deviation(std::span<const double> values);  ///< divides by n − 1; NaN of fewer than two

struct WelchTest {
  double t = 0;
  double degrees = 0;  ///< of freedom
  double p = 0;        ///< two-sided
};

/// Whether the means of two samples differ whose variances may differ (Welch 1947; where one has two or three
/// values and the other more, with the degrees of freedom of the smaller one). NaN when one of them has
/// fewer than two values. Where nothing varies, p is 1 for equal means and 0 for others.
WelchTest welch_test(std::span<const double> a, std::span<const double> b);

/// Whether the differences b − a of pairs average 0 (Student's t test of pairs). Precondition: as many of
/// each, pair by pair. NaN of fewer than two pairs. Where the differences do not vary, p is 1 for 0 and 0 for
/// others.
WelchTest paired_test(std::span<const double> a, std::span<const double> b);

/// Pearson's, of pairs; NaN where one of them does not vary.
double correlation(std::span<const double> a, std::span<const double> b);

/// Whether a mean lies above a bound: the chance of one as far above it, were the true one there (Student's t
/// test of one sample, one-sided). NaN of fewer than two values. Where nothing varies, 0 above it and 1 else.
double p_of_mean_above(std::span<const double> values, double bound);

/// Holm's correction (1979): reject what stays below a level, and the chance that any of the rejections is
/// wrong stays below it too. A NaN stays one and is no comparison.
std::vector<double> holm(std::vector<double> p);

struct ConfidenceInterval {
  double low = 0, high = 0;
};

/// Of a mean, by Student's t. NaN of fewer than two values.
ConfidenceInterval mean_interval(std::span<const double> values, double confidence = 0.95);

/// Of mean(b) − mean(a), by Welch's t: it leaves out 0 exactly where `welch_test` finds a difference at the
/// level 1 − confidence. NaN when one sample has fewer than two values.
ConfidenceInterval welch_interval(std::span<const double> a, std::span<const double> b,
                                  double confidence = 0.95);

/// Of the mean of the differences of pairs, by Student's t. NaN of fewer than two pairs.
ConfidenceInterval paired_interval(std::span<const double> a, std::span<const double> b,
                                   double confidence = 0.95);

/// Whether a difference lies within ± margin (two one-sided tests, Schuirmann 1987): the larger p of the two;
/// below a level where the interval of confidence 1 − 2 × level is within. NaN where nothing varies or a
/// sample has fewer than two values.
double equivalence_p(std::span<const double> a, std::span<const double> b, double margin, bool paired);

/// An estimate with its interval.
struct Estimate {
  double value = 0;
  ConfidenceInterval interval = {};
};

/// The difference b − a in standard deviations (Hedges' g: pooled deviation, unbiased for few values), with
/// the interval that follows from the noncentral t distribution, exact for normal values of equal variances.
/// NaN where nothing varies or a sample has fewer than two values.
Estimate hedges_g(std::span<const double> a, std::span<const double> b, double confidence = 0.95);

/// How often a value of b is above one of a, ties counted by half, with Newcombe's interval (2006, method 5).
/// NaN of no values.
Estimate probability_above(std::span<const double> a, std::span<const double> b, double confidence = 0.95);

/// The mean without the best and the worst value, as MLPerf reports; NaN of fewer than five, or where more
/// than the worst is infinite.
double olympic_mean(std::vector<double> values);

/// The interquartile mean: of what is left without a quarter of the values, rounded down, at either end; of
/// fewer than four values their mean. With the 95 % interval of a stratified bootstrap (percentiles of 2,000
/// resamples; Agarwal et al. 2021, arXiv:2108.13264): each stratum is resampled by itself. The same values
/// give the same interval. NaN of no values.
/// @param strata values by task.
Estimate interquartile_mean(const std::vector<std::vector<double>>& strata);

/// A test of two samples of times; infinite: never.
struct LogRankTest {
  double statistic = 0;  ///< of b: events less those expected; below 0: fewer, or later
  double p = 0;          ///< two-sided; NaN: a sample is empty, or there are too many ways to divide the runs
};

/// How many ways of dividing the values are tried at most.
inline constexpr int64_t kMostPermutations = 200'000;

/// Whether two samples of times to an event differ, with those that never had it counted as the longest (the
/// log-rank test; p exact, over all ways to divide the values among the samples). Every value is known to the
/// same horizon: none may be lost before.
LogRankTest log_rank_test(std::span<const double> a, std::span<const double> b);

/// Of a share of which `count` out of `of` were seen (Clopper and Pearson 1934). Precondition: of > 0.
ConfidenceInterval share_interval(int64_t count, int64_t of, double confidence = 0.95);

inline constexpr int64_t kMostRunsNeeded = 10'000;

/// How many values of each sample Welch's test needs to find `difference` at level `alpha` with probability
/// `power`, if the deviations are what they seem; nothing beyond kMostRunsNeeded.
std::optional<int64_t> runs_needed(double difference, double deviation_a, double deviation_b, double alpha,
                                   double power = 0.8);

}  // namespace autotrain
