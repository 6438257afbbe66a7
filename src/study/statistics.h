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

/// Whether the means of two samples differ whose variances may differ (Welch 1947). NaN when one of them has
/// fewer than two values. Where nothing varies, p is 1 for equal means and 0 for others.
WelchTest welch_test(std::span<const double> a, std::span<const double> b);

/// Whether a mean lies above a bound: the chance of one as far above it, were the true one there (Student's t
/// test of one sample, one-sided). NaN of fewer than two values. Where nothing varies, 0 above it and 1 else.
double p_of_mean_above(std::span<const double> values, double bound);

/// Holm's correction (1979): reject what stays below a level, and the chance that any of the rejections is
/// wrong stays below it too. A NaN stays one and is no comparison.
std::vector<double> holm(std::vector<double> p);

struct ConfidenceInterval {
  double low = 0, high = 0;
};

/// Of mean(b) − mean(a), by Welch's t: it leaves out 0 exactly where `welch_test` finds a difference at the
/// level 1 − confidence. NaN when one sample has fewer than two values.
ConfidenceInterval welch_interval(std::span<const double> a, std::span<const double> b,
                                  double confidence = 0.95);

/// Of a share of which `count` out of `of` were seen (Clopper and Pearson 1934). Precondition: of > 0.
ConfidenceInterval share_interval(int64_t count, int64_t of, double confidence = 0.95);

inline constexpr int64_t kMostRunsNeeded = 10'000;

/// How many values of each sample Welch's test needs to find `difference` at level `alpha` with probability
/// `power`, if the deviations are what they seem; nothing beyond kMostRunsNeeded.
std::optional<int64_t> runs_needed(double difference, double deviation_a, double deviation_b, double alpha,
                                   double power = 0.8);

}  // namespace autotrain
