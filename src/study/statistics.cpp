#include "study/statistics.h"

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/non_central_t.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>
#include <numeric>

namespace autotrain {
namespace {

namespace bm = boost::math;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Of the mean of values.
double squared_error(std::span<const double> values) {
  return std::pow(standard_deviation(values), 2) / static_cast<double>(values.size());
}

// The power of Welch's test with `runs` values in each sample.
double power_of(double runs, double difference, double variance_a, double variance_b, double alpha) {
  const double both = variance_a + variance_b;
  const double degrees = (runs - 1) * both * both / (variance_a * variance_a + variance_b * variance_b);
  const double shift = std::abs(difference) / std::sqrt(both / runs);
  const double critical = bm::quantile(bm::complement(bm::students_t(degrees), alpha / 2));
  if (shift > critical + 35) return 1;  // far beyond what the series below converges for
  const bm::non_central_t shifted(degrees, shift);
  return bm::cdf(bm::complement(shifted, critical)) + bm::cdf(shifted, -critical);
}

}  // namespace

std::vector<double> finite_values(std::span<const double> values) {
  std::vector<double> finite;
  std::ranges::copy_if(values, std::back_inserter(finite), [](double value) { return std::isfinite(value); });
  return finite;
}

double mean(std::span<const double> values) {
  if (values.empty()) return kNaN;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double standard_deviation(std::span<const double> values) {
  if (values.size() < 2) return kNaN;
  const double centre = mean(values);
  double sum = 0;
  for (const double value : values) sum += (value - centre) * (value - centre);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

WelchTest welch_test(std::span<const double> a, std::span<const double> b) {
  if (a.size() < 2 || b.size() < 2) return {kNaN, kNaN, kNaN};
  const double error_a = squared_error(a), error_b = squared_error(b), both = error_a + error_b;
  const double difference = mean(b) - mean(a);
  if (both == 0)
    return {difference == 0 ? 0 : std::copysign(HUGE_VAL, difference), kNaN, difference == 0 ? 1.0 : 0.0};
  const double degrees = both * both /
                         (error_a * error_a / static_cast<double>(a.size() - 1) +
                          error_b * error_b / static_cast<double>(b.size() - 1));
  const double t = difference / std::sqrt(both);
  return {t, degrees, 2 * bm::cdf(bm::complement(bm::students_t(degrees), std::abs(t)))};
}

double p_of_mean_above(std::span<const double> values, double bound) {
  if (values.size() < 2) return kNaN;
  const double above = mean(values) - bound, n = static_cast<double>(values.size());
  const double error = standard_deviation(values) / std::sqrt(n);
  if (error == 0) return above > 0 ? 0 : 1;
  return bm::cdf(bm::complement(bm::students_t(n - 1), above / error));
}

std::vector<double> holm(std::vector<double> p) {
  std::vector<size_t> order;
  for (size_t i = 0; i < p.size(); ++i) {
    if (!std::isnan(p[i])) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t i, size_t j) { return p[i] < p[j]; });
  double largest = 0;
  for (size_t rank = 0; rank < order.size(); ++rank) {
    double& value = p[order[rank]];
    largest = std::max(largest, value * static_cast<double>(order.size() - rank));
    value = std::min(1.0, largest);
  }
  return p;
}

ConfidenceInterval welch_interval(std::span<const double> a, std::span<const double> b, double confidence) {
  if (a.size() < 2 || b.size() < 2) return {kNaN, kNaN};
  const WelchTest test = welch_test(a, b);
  const double difference = mean(b) - mean(a);
  if (std::isnan(test.degrees)) return {difference, difference};
  const double reach = std::sqrt(squared_error(a) + squared_error(b)) *
                       bm::quantile(bm::complement(bm::students_t(test.degrees), (1 - confidence) / 2));
  return {difference - reach, difference + reach};
}

ConfidenceInterval share_interval(int64_t count, int64_t of, double confidence) {
  using Binomial = bm::binomial;
  const auto trials = static_cast<double>(of), successes = static_cast<double>(count);
  const double outside = (1 - confidence) / 2;
  return {Binomial::find_lower_bound_on_p(trials, successes, outside),
          Binomial::find_upper_bound_on_p(trials, successes, outside)};
}

std::optional<int64_t> runs_needed(double difference, double deviation_a, double deviation_b, double alpha,
                                   double power) {
  const double variance_a = deviation_a * deviation_a, variance_b = deviation_b * deviation_b;
  if (difference == 0 || !std::isfinite(difference + variance_a + variance_b)) return std::nullopt;
  if (variance_a + variance_b == 0) return 2;
  const auto enough = [&](int64_t runs) {
    return power_of(static_cast<double>(runs), difference, variance_a, variance_b, alpha) >= power;
  };
  if (!enough(kMostRunsNeeded)) return std::nullopt;
  int64_t too_few = 1, plenty = kMostRunsNeeded;
  while (plenty - too_few > 1) {
    const int64_t middle = (too_few + plenty) / 2;
    (enough(middle) ? plenty : too_few) = middle;
  }
  return plenty;
}

}  // namespace autotrain
