#include "study/statistics.h"

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/non_central_t.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "base/random.h"

namespace autotrain {
namespace {

namespace bm = boost::math;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Of the mean of values.
double squared_error(std::span<const double> values) {
  return std::pow(standard_deviation(values), 2) / static_cast<double>(values.size());
}

// Welch's degrees of freedom. They are an estimate, and too many where one sample has two or three values and
// the other more: of 2 and 10 values that are alike, the test would find a difference in one study of ten.
// There the smaller sample's own are taken, which are never too many (Hsu 1938; Mickey and Brown 1966).
double degrees_of_freedom(std::span<const double> a, std::span<const double> b) {
  constexpr size_t kEnough = 4;
  const size_t fewer = std::min(a.size(), b.size());
  if (a.size() != b.size() && fewer < kEnough) return static_cast<double>(fewer - 1);
  const double error_a = squared_error(a), error_b = squared_error(b), both = error_a + error_b;
  return both * both /
         (error_a * error_a / static_cast<double>(a.size() - 1) +
          error_b * error_b / static_cast<double>(b.size() - 1));
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

double normal_quantile(double p) {
  return bm::quantile(bm::normal(), p);
}

// The noncentrality at which a t at least as large as the one seen has this chance.
double noncentrality(double degrees, double t, double chance_above) {
  double low = t - 40, high = t + 40;  // the quantiles that are asked for lie some units from t
  low = std::min(low, t * 3 - 40), high = std::max(high, t * 3 + 40);
  for (int i = 0; i < 50; ++i) {
    const double middle = (low + high) / 2;
    const double above = bm::cdf(bm::complement(bm::non_central_t(degrees, middle), t));
    (above < chance_above ? low : high) = middle;
  }
  return (low + high) / 2;
}

std::vector<double> differences_of_pairs(std::span<const double> a, std::span<const double> b) {
  std::vector<double> differences;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) differences.push_back(b[i] - a[i]);
  return differences;
}

// Scores of the log-rank test: a value's part of the statistic, so that the sum over a sample is its events
// less those expected.
std::vector<double> log_rank_scores(const std::vector<double>& times) {
  std::vector<double> events(times);
  std::erase_if(events, [](double time) { return !std::isfinite(time); });
  std::ranges::sort(events);
  std::vector<double> scores;
  for (const double time : times) {
    double score = std::isfinite(time) ? 1 : 0;
    for (size_t i = 0; i < events.size() && events[i] <= time; ++i)  // each event, among those still without
      score -=
          1 / static_cast<double>(std::ranges::count_if(times, [&](double t) { return t >= events[i]; }));
    scores.push_back(score);
  }
  return scores;
}

// How many ways there are to choose; kMostPermutations + 1: more.
int64_t ways(size_t chosen, size_t of) {
  double count = 1;
  for (size_t i = 0; i < chosen; ++i) {
    count *= static_cast<double>(of - i) / static_cast<double>(i + 1);
    if (count > static_cast<double>(kMostPermutations)) return kMostPermutations + 1;
  }
  return std::llround(count);
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
  if (std::ranges::adjacent_find(values, std::not_equal_to()) == values.end())
    return 0;  // not what rounding says
  const double centre = mean(values);
  double sum = 0;
  for (const double value : values) sum += (value - centre) * (value - centre);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

WelchTest welch_test(std::span<const double> a, std::span<const double> b) {
  if (a.size() < 2 || b.size() < 2) return {kNaN, kNaN, kNaN};
  const double both = squared_error(a) + squared_error(b);
  const double difference = mean(b) - mean(a);
  if (both == 0)
    return {difference == 0 ? 0 : std::copysign(HUGE_VAL, difference), kNaN, difference == 0 ? 1.0 : 0.0};
  const double degrees = degrees_of_freedom(a, b);
  const double t = difference / std::sqrt(both);
  return {t, degrees, 2 * bm::cdf(bm::complement(bm::students_t(degrees), std::abs(t)))};
}

WelchTest paired_test(std::span<const double> a, std::span<const double> b) {
  const std::vector<double> differences = differences_of_pairs(a, b);
  if (differences.size() < 2) return {kNaN, kNaN, kNaN};
  const double centre = mean(differences), error = std::sqrt(squared_error(differences));
  double largest = 0;
  for (const double value : a) largest = std::max(largest, std::abs(value));
  constexpr double kRounding = 1e-14;  // of subtractions, against values themselves
  if (error <= kRounding * largest)
    return {centre == 0 ? 0 : std::copysign(HUGE_VAL, centre), kNaN, centre == 0 ? 1.0 : 0.0};
  const double t = centre / error, degrees = static_cast<double>(differences.size() - 1);
  return {t, degrees, 2 * bm::cdf(bm::complement(bm::students_t(degrees), std::abs(t)))};
}

double correlation(std::span<const double> a, std::span<const double> b) {
  const double both = standard_deviation(a) * standard_deviation(b);
  if (a.size() != b.size() || !(both > 0)) return kNaN;
  double sum = 0;
  const double centre_a = mean(a), centre_b = mean(b);
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - centre_a) * (b[i] - centre_b);
  return sum / static_cast<double>(a.size() - 1) / both;
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

ConfidenceInterval mean_interval(std::span<const double> values, double confidence) {
  if (values.size() < 2) return {kNaN, kNaN};
  const double degrees = static_cast<double>(values.size() - 1);
  const double reach = std::sqrt(squared_error(values)) *
                       bm::quantile(bm::complement(bm::students_t(degrees), (1 - confidence) / 2));
  return {mean(values) - reach, mean(values) + reach};
}

ConfidenceInterval paired_interval(std::span<const double> a, std::span<const double> b, double confidence) {
  return mean_interval(differences_of_pairs(a, b), confidence);
}

double equivalence_p(std::span<const double> a, std::span<const double> b, double margin, bool paired) {
  const WelchTest test = paired ? paired_test(a, b) : welch_test(a, b);
  if (!std::isfinite(test.degrees)) return kNaN;
  const double difference = mean(b) - mean(a);
  const double error = paired ? std::sqrt(squared_error(differences_of_pairs(a, b)))
                              : std::sqrt(squared_error(a) + squared_error(b));
  return bm::cdf(bm::complement(bm::students_t(test.degrees), (margin - std::abs(difference)) / error));
}

Estimate hedges_g(std::span<const double> a, std::span<const double> b, double confidence) {
  if (a.size() < 2 || b.size() < 2) return {kNaN, {kNaN, kNaN}};
  const auto n = static_cast<double>(a.size()), m = static_cast<double>(b.size());
  const double degrees = n + m - 2;
  const double pooled = std::sqrt(
      ((n - 1) * std::pow(standard_deviation(a), 2) + (m - 1) * std::pow(standard_deviation(b), 2)) /
      degrees);
  if (!(pooled > 0)) return {kNaN, {kNaN, kNaN}};
  const double unbiased =
      std::exp(std::lgamma(degrees / 2) - std::lgamma((degrees - 1) / 2)) / std::sqrt(degrees / 2);
  const double d = (mean(b) - mean(a)) / pooled, scale = std::sqrt(1 / n + 1 / m);
  const double outside = (1 - confidence) / 2, t = d / scale;
  constexpr double kFurthest = 60;  // beyond it the series of the distribution no longer converges
  if (std::abs(t) > kFurthest) return {unbiased * d, {kNaN, kNaN}};
  return {unbiased * d,
          {noncentrality(degrees, t, outside) * scale, noncentrality(degrees, t, 1 - outside) * scale}};
}

Estimate probability_above(std::span<const double> a, std::span<const double> b, double confidence) {
  if (a.empty() || b.empty()) return {kNaN, {kNaN, kNaN}};
  double above = 0;
  for (const double x : a) {
    for (const double y : b) above += y > x ? 1 : y == x ? 0.5 : 0;
  }
  const auto n = static_cast<double>(a.size()), m = static_cast<double>(b.size());
  const double seen = above / (n * m), z = normal_quantile(1 - (1 - confidence) / 2),
               others = (n + m) / 2 - 1;
  const auto inside = [&](double theta) {  // whether the share seen is what this one may well show
    const double variance =
        theta * (1 - theta) * (1 + others * ((1 - theta) / (2 - theta) + theta / (1 + theta))) / (n * m);
    return std::abs(seen - theta) <= z * std::sqrt(variance);
  };
  const auto edge = [&](double outer) {  // between what was seen and 0 or 1
    if (inside(outer)) return outer;
    double in = seen, out = outer;
    for (int i = 0; i < 60; ++i) (inside((in + out) / 2) ? in : out) = (in + out) / 2;
    return in;
  };
  return {seen, {edge(0), edge(1)}};
}

namespace {

double trimmed_mean(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t cut = values.size() / 4;
  return mean(std::span(values).subspan(cut, values.size() - 2 * cut));
}

}  // namespace

Estimate interquartile_mean(const std::vector<std::vector<double>>& strata) {
  constexpr size_t kResamples = 2000;
  std::vector<double> all;
  for (const auto& stratum : strata) all.insert(all.end(), stratum.begin(), stratum.end());
  if (all.empty()) return {kNaN, {kNaN, kNaN}};
  Random random(derive_key(all.size(), strata.size()));
  std::vector<double> means, drawn(all.size());
  for (size_t i = 0; i < kResamples; ++i) {
    drawn.clear();
    for (const auto& stratum : strata) {
      for (size_t k = 0; k < stratum.size(); ++k)
        drawn.push_back(stratum[static_cast<size_t>(random.below(std::ssize(stratum)))]);
    }
    means.push_back(trimmed_mean(drawn));
  }
  std::ranges::sort(means);
  constexpr auto kOutside = static_cast<size_t>(kResamples * 0.025);
  return {trimmed_mean(all), {means[kOutside], means[kResamples - 1 - kOutside]}};
}

double olympic_mean(std::vector<double> values) {
  constexpr size_t kFewest = 5;
  if (values.size() < kFewest) return kNaN;
  std::ranges::sort(values);
  const double middle = mean(std::span(values).subspan(1, values.size() - 2));
  return std::isfinite(middle) ? middle : kNaN;
}

LogRankTest log_rank_test(std::span<const double> a, std::span<const double> b) {
  if (a.empty() || b.empty() || ways(b.size(), a.size() + b.size()) > kMostPermutations) return {kNaN, kNaN};
  std::vector<double> times(a.begin(), a.end());
  times.insert(times.end(), b.begin(), b.end());
  const std::vector<double> scores = log_rank_scores(times);
  const double seen = std::accumulate(scores.begin() + std::ssize(a), scores.end(), 0.0);
  constexpr double kRounding = 1e-9;
  int64_t as_far = 0, all = 0;
  std::vector<bool> chosen(scores.size(), false);
  std::fill_n(chosen.rbegin(), b.size(), true);
  do {
    double sum = 0;
    for (size_t i = 0; i < scores.size(); ++i) sum += chosen[i] ? scores[i] : 0;
    as_far += std::abs(sum) >= std::abs(seen) - kRounding ? 1 : 0;
    ++all;
  } while (std::next_permutation(chosen.begin(), chosen.end()));
  return {seen, static_cast<double>(as_far) / static_cast<double>(all)};
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
