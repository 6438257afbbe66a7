#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

namespace autotrain {

/// What one update at a learning rate led to.
struct RatePoint {
  double lr = 0;
  double loss = 0;  ///< of the next window, whose samples the update did not see
};

/// A rate that was held.
struct HeldRate {
  double lr = 0;
  bool diverged = false;
};

/// What one stretch of the stream showed.
struct RateStretch {
  int64_t position = 0;                ///< in the stream
  double start_loss = 0;               ///< of its first window, before any update
  std::vector<RatePoint> points = {};  ///< while the rate grew; finite
  std::vector<HeldRate> held = {};     ///< in the order in which they were tried

  /// The largest rate of the grid at which training does not diverge. Nothing: either not even the least one
  /// is such a rate, or all are.
  std::optional<double> edge = {};
  bool diverges = false;  ///< at some rate of the grid

  std::optional<double> steepest = {};    ///< as steepest_rate
  std::optional<double> valley_end = {};  ///< as end_of_valley; nothing also: the grid ends before it
};

/// The rates from × factorⁱ that do not lie above `to`. Precondition: 0 < from ≤ to, factor > 1.
std::vector<double> rate_grid(double from, double to, double factor);

/// Follows a loss that is noisy from window to window, by its exponential moving average without the bias of
/// its start (Kingma and Ba 2015, section 3).
class LossWatch {
 public:
  /// The next loss; any number.
  void add(double loss);

  double smoothed() const;  ///< precondition: a finite loss was added
  double least() const { return least_; }

  /// Whether `loss` is above four times the least smoothed one; where that is below zero, above it by three
  /// times its size.
  bool is_far_above(double loss) const;

  bool finite() const { return finite_; }  ///< every loss so far

  /// Whether the smoothed loss is far above, or any loss was not finite.
  bool diverged() const { return !finite_ || is_far_above(smoothed()); }

 private:
  double sum_ = 0, weight_ = 0;
  double least_ = std::numeric_limits<double>::infinity();
  bool finite_ = true;
};

/// Whether training at one rate diverged: a loss was not finite, or the last quarter of them lies far above
/// the least smoothed one. A rise that is over by then, such as momentum begins with, is none.
/// @param losses of window after window; at least 4, or up to one that is not finite.
bool diverged_when_held(const std::vector<double>& losses);

/// The rate at which the loss falls fastest over the logarithm of the rate: where the line of least squares
/// through the losses at the rates up to twice higher and lower, and at least two on either side, is
/// steepest. Nothing where no line falls clearly, by four standard errors of its slope.
/// @param points finite, of a grid of rates.
std::optional<double> steepest_rate(const std::vector<RatePoint>& points);

/// The largest rate at which the loss is still low: where the mean of the losses at the rates up to twice
/// higher and lower, and at least two on either side, lies in the lowest fifth of its fall, from the first
/// rates to its least. Nothing of too few points.
/// @param points finite, of a grid of rates.
std::optional<double> end_of_valley(const std::vector<RatePoint>& points);

/// The largest of the numbers from 0 to `count` − 1 that holds, where all smaller ones do and no larger one
/// does: by doubling steps from the guess upwards, and by halving. Each is tried once at most. Nothing: not
/// even 0 holds.
std::optional<size_t> largest_that_holds(size_t guess, size_t count,
                                         const std::function<bool(size_t)>& holds);

}  // namespace autotrain
