#include "step/gradient_noise.h"

#include <algorithm>
#include <bit>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <numeric>
#include <span>

namespace autotrain {
namespace {

constexpr size_t kFewestBlocks = 8;  // that an interval is made of
constexpr double kConfidence = 0.95;

// The largest power of 2 that is at most window ÷ unit, from 1 to `most`.
int64_t power_of_two_in(int64_t window, int64_t unit, int64_t most) {
  const auto times = static_cast<uint64_t>(std::clamp<int64_t>(window / unit, 1, most));
  return static_cast<int64_t>(std::bit_floor(times));
}

// Below it, the micro-batches are the window but for rounding.
constexpr double kLeastLeft = 1e-6;

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// The covariance of the means of two rows of blocks.
double covariance_of_means(std::span<const double> a, std::span<const double> b) {
  const double mean_a = mean_of(a), mean_b = mean_of(b), n = static_cast<double>(a.size());
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - mean_a) * (b[i] - mean_b);
  return sum / (n * (n - 1));
}

void join_pairs(std::vector<double>& sums) {
  for (size_t i = 0; i < sums.size() / 2; ++i) sums[i] = sums[2 * i] + sums[2 * i + 1];
  sums.resize(sums.size() / 2);
}

// All B for which the mean of trace − B × square does not differ from 0: those between the roots of
// aB² − 2bB + c, or beyond the one that is positive.
std::optional<NoiseScale> ratio_of_means(std::span<const double> traces, std::span<const double> squares) {
  const boost::math::students_t distribution(static_cast<double>(traces.size() - 1));
  const double t = boost::math::quantile(distribution, (1 + kConfidence) / 2);
  const double trace = mean_of(traces), square = mean_of(squares);
  const double a = square * square - t * t * covariance_of_means(squares, squares);
  const double b = trace * square - t * t * covariance_of_means(traces, squares);
  const double c = trace * trace - t * t * covariance_of_means(traces, traces);
  const double root = std::sqrt(std::max(0.0, b * b - a * c));
  const bool some_noise = trace > 0 && c > 0;
  const double low = some_noise ? c / (b + root) : 0;
  if (square > 0 && a > 0)
    return NoiseScale{.samples = std::max(0.0, trace / square), .low = low, .high = (b + root) / a};
  if (a > 0 || !some_noise || !std::isfinite(low)) return std::nullopt;
  return NoiseScale{.low = low};
}

}  // namespace

std::optional<GradientMoments> moments_of(const WindowNorms& window, int64_t samples) {
  const double left = window.firsts - window.first_weight / window.weight;
  const double trace = (window.first_squares - window.first_weight * window.square) / left;
  const double square = window.square - trace / window.weight;
  const double trace_of_sample = trace * static_cast<double>(samples) / window.weight;
  if (!(left > kLeastLeft) || !std::isfinite(trace_of_sample) || !std::isfinite(square)) return std::nullopt;
  return GradientMoments{.trace = trace_of_sample, .square = square};
}

NoiseStrides noise_strides(int64_t window) {
  return {.plain = power_of_two_in(window, 512, 16), .preconditioned = 16 * power_of_two_in(window, 2048, 8)};
}

bool NoiseBlocks::sound() const {
  return traces.size() == squares.size() && traces.size() <= kMostNoiseBlocks && updates_each >= 1 &&
         updates_each < (int64_t{1} << 53) && updates_in_last >= 0 && updates_in_last < 2 * updates_each;
}

void NoiseBlocks::add(const GradientMoments& update, int64_t updates) {
  if (updates > updates_each) *this = {.updates_each = updates};
  if (traces.empty() || updates_in_last >= updates_each) {
    if (traces.size() == kMostNoiseBlocks) {
      join_pairs(traces);
      join_pairs(squares);
      updates_each *= 2;
    }
    traces.push_back(0);
    squares.push_back(0);
    updates_in_last = 0;
  }
  traces.back() += static_cast<double>(updates) * update.trace;
  squares.back() += static_cast<double>(updates) * update.square;
  updates_in_last += updates;
}

std::optional<NoiseScale> NoiseBlocks::scale() const {
  const size_t full = traces.size() - (updates_in_last < updates_each && !traces.empty() ? 1 : 0);
  const size_t later = full / 2;
  if (later < kFewestBlocks) return std::nullopt;
  return ratio_of_means(std::span(traces).subspan(full - later, later),
                        std::span(squares).subspan(full - later, later));
}

}  // namespace autotrain
