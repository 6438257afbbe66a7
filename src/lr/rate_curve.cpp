#include "lr/rate_curve.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace autotrain {
namespace {

constexpr double kKeep = 0.9;          // of the average, at each loss
constexpr double kFar = 3;             // times the least loss, above it
constexpr double kReach = 2;           // a line or a mean takes rates up to so many times higher and lower
constexpr size_t kFewest = 2;          // of them on either side
constexpr double kStandardErrors = 4;  // that a slope must be away from zero
constexpr double kLow = 0.2;           // of the whole fall, up to which a loss is still low

// The line of least squares through some points of a curve, over the logarithm of the rate.
struct Line {
  double slope = 0;
  double standard_error = 0;

  bool falls_clearly() const { return slope < -kStandardErrors * standard_error; }
};

// Points on either side of a line's or a mean's middle.
size_t reach_of(const std::vector<RatePoint>& points) {
  if (points.size() < 2) return kFewest;
  const double factor = points[1].lr / points[0].lr;
  return std::max(kFewest, static_cast<size_t>(std::log(kReach) / std::log(factor)));
}

// At the ends of the grid over the points that there are.
std::vector<double> smoothed_losses(const std::vector<RatePoint>& points, size_t reach) {
  std::vector<double> means;
  for (size_t i = 0; i < points.size(); ++i) {
    const size_t first = i - std::min(i, reach), end = std::min(i + reach + 1, points.size());
    double sum = 0;
    for (size_t j = first; j < end; ++j) sum += points[j].loss;
    means.push_back(sum / static_cast<double>(end - first));
  }
  return means;
}

Line line_through(const RatePoint* first, const RatePoint* last) {
  const auto count = static_cast<double>(last - first);
  double x_mean = 0, y_mean = 0;
  for (const RatePoint* point = first; point != last; ++point) {
    x_mean += std::log(point->lr) / count;
    y_mean += point->loss / count;
  }
  double xx = 0, xy = 0, yy = 0;
  for (const RatePoint* point = first; point != last; ++point) {
    const double x = std::log(point->lr) - x_mean, y = point->loss - y_mean;
    xx += x * x, xy += x * y, yy += y * y;
  }
  const double slope = xy / xx, rest = std::max(0.0, yy - slope * xy);
  return {slope, std::sqrt(rest / (count - 2) / xx)};
}

}  // namespace

std::vector<double> rate_grid(double from, double to, double factor) {
  std::vector<double> rates;
  for (int i = 0;; ++i) {
    const double rate = from * std::pow(factor, i);
    if (rate > to * (1 + 1e-9)) return rates;
    rates.push_back(rate);
  }
}

void LossWatch::add(double loss) {
  finite_ &= std::isfinite(loss);
  if (!finite_) return;
  sum_ = kKeep * sum_ + (1 - kKeep) * loss;
  weight_ = kKeep * weight_ + (1 - kKeep);
  least_ = std::min(least_, smoothed());
}

double LossWatch::smoothed() const {
  return sum_ / weight_;
}

bool LossWatch::is_far_above(double loss) const {
  return !(loss <= least_ + kFar * std::abs(least_));
}

bool diverged_when_held(const std::vector<double>& losses) {
  LossWatch watch;
  for (const double loss : losses) watch.add(loss);
  if (!watch.finite()) return true;
  const size_t last = losses.size() / 4;
  const double late = std::accumulate(losses.end() - static_cast<std::ptrdiff_t>(last), losses.end(), 0.0) /
                      static_cast<double>(last);
  return watch.is_far_above(late);
}

std::optional<double> steepest_rate(const std::vector<RatePoint>& points) {
  std::optional<double> rate;
  double steepest = 0;
  const size_t reach = reach_of(points);
  for (size_t i = reach; i + reach < points.size(); ++i) {
    const Line line = line_through(&points[i - reach], &points[i + reach] + 1);
    if (!line.falls_clearly() || line.slope >= steepest) continue;
    steepest = line.slope;
    rate = points[i].lr;
  }
  return rate;
}

std::optional<double> end_of_valley(const std::vector<RatePoint>& points) {
  const size_t reach = reach_of(points);
  if (points.size() <= 2 * reach) return std::nullopt;
  const std::vector<double> losses = smoothed_losses(points, reach);
  const double first = losses[reach], least = std::ranges::min(losses);
  const auto is_low = [&](double loss) { return loss <= least + kLow * (first - least); };
  const auto last = std::find_if(losses.rbegin(), losses.rend(), is_low);
  return points[static_cast<size_t>(losses.rend() - last) - 1].lr;
}

std::optional<size_t> largest_that_holds(size_t guess, size_t count,
                                         const std::function<bool(size_t)>& holds) {
  size_t beyond = 0;  // one more than the largest that is known to hold
  size_t failing = std::min(guess, count - 1);
  for (size_t step = 1; holds(failing); step *= 2) {
    beyond = failing + 1;
    if (beyond == count) return failing;
    failing = std::min(failing + step, count - 1);
  }
  while (beyond < failing) {
    const size_t middle = beyond + (failing - beyond) / 2;
    if (holds(middle)) {
      beyond = middle + 1;
    } else {
      failing = middle;
    }
  }
  return beyond == 0 ? std::nullopt : std::optional(beyond - 1);
}

}  // namespace autotrain
