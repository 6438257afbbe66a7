#include "advise/batch_model.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <span>

#include "base/units.h"
#include "plan/cut.h"

namespace autotrain {
namespace {

constexpr int64_t kMostDevices = 64;
constexpr int kMostDoublings = 6;  // and halvings, of the own batch in the table

// The batch times a power of two.
int64_t doubled(int64_t own, int times) {
  return times >= 0 ? own << times
                    : std::max<int64_t>(1, std::llround(std::ldexp(static_cast<double>(own), times)));
}

// The line through two measured points.
double on_line(double x, double x0, double y0, double x1, double y1) {
  return y0 + (y1 - y0) * (x - x0) / (x1 - x0);
}

double ratio_at(double noise, double effective, double own) {
  return std::isinf(noise) ? 1 : (effective + noise) / (own + noise);
}

Ranged times(const Ranged& ranged, double factor) {
  return {ranged.value ? std::optional(*ranged.value * factor) : std::nullopt, ranged.low * factor,
          ranged.high * factor};
}

// As it is where either of two speeds, of which it is a ratio, is somewhat another.
Ranged widened(const Ranged& ranged, double uncertainty) {
  return {ranged.value, ranged.low / (1 + uncertainty), ranged.high * (1 + uncertainty)};
}

// What decides where only bounds are known.
double likely(const Ranged& ranged) {
  return ranged.value.value_or(ranged.high);
}

double seconds_per_sample(const BatchRequest& r, int64_t effective) {
  return r.execution.seconds_of(effective, r.devices) / static_cast<double>(effective);
}

BatchRow row_of(const BatchRequest& r, int64_t effective) {
  const int64_t share = ceil_div(effective, r.devices);
  BatchRow row{.effective = effective, .micro_batch = r.execution.micro_batch_of(share)};
  row.window = ceil_div(share, row.micro_batch);
  row.samples_per_second = 1 / seconds_per_sample(r, effective);
  row.measured = r.execution.measured(row.micro_batch);
  row.peak_bytes = r.execution.peak_of(row.micro_batch);
  if (!r.noise) return row;
  const double own = static_cast<double>(r.own);
  row.samples = samples_ratio(effective, r.own, *r.noise);
  row.updates = times(*row.samples, own / static_cast<double>(effective));
  const int64_t of_own = r.execution.micro_batch_of(ceil_div(r.own, r.devices));
  const double uncertainty =
      row.micro_batch == of_own
          ? 0  // both are as fast as the same passes are
          : std::hypot(r.execution.uncertainty_of(row.micro_batch), r.execution.uncertainty_of(of_own));
  row.seconds = widened(times(*row.samples, seconds_per_sample(r, effective) / seconds_per_sample(r, r.own)),
                        uncertainty);
  return row;
}

int64_t knee_of(const std::vector<BatchRow>& rows, double share) {
  const double best = std::ranges::max_element(rows, {}, &BatchRow::samples_per_second)->samples_per_second;
  return std::ranges::find_if(
             rows, [&](const BatchRow& row) { return row.samples_per_second >= (1 - share) * best; })
      ->effective;
}

// A size that gains, and takes no longer at any end of the interval.
bool is_safe(const BatchRow& row) {
  return likely(*row.seconds) <= 1 - kWorthwhile && row.seconds->high < 1;
}

bool may_gain(const BatchRow& row) {
  return row.seconds->value.value_or(row.seconds->low) <= 1 - kWorthwhile;
}

// By its worse end, and of sizes that are as good as the best there the one that is nearest to the own, which
// is the own one where none is safe.
size_t best_row(const BatchAdvice& advice) {
  double least = std::numeric_limits<double>::infinity();
  for (const BatchRow& row : advice.rows) {
    if (is_safe(row)) least = std::min(least, row.seconds->high);
  }
  size_t best = advice.own;
  size_t nearest = advice.rows.size();
  for (size_t i = 0; i < advice.rows.size(); ++i) {
    const BatchRow& row = advice.rows[i];
    const size_t distance = i > advice.own ? i - advice.own : advice.own - i;
    if (!is_safe(row) || row.seconds->high > (1 + kWorthwhile) * least || distance >= nearest) continue;
    best = i;
    nearest = distance;
  }
  return best;
}

void judge(BatchAdvice& advice) {
  advice.advised = best_row(advice);
  if (advice.advised == advice.own) {
    advice.verdict = BatchVerdict::kKeep;
    advice.unsure = std::ranges::any_of(advice.rows, may_gain);
  } else {
    advice.verdict = advice.advised > advice.own ? BatchVerdict::kRaise : BatchVerdict::kLower;
  }
}

// Time to the same loss, but for a factor.
double seconds_to_loss(const BatchRequest& r, int64_t effective, int64_t devices) {
  const double noise = *r.noise->samples;
  const double e = static_cast<double>(effective);
  return (1 + noise / e) * r.execution.seconds_of(effective, devices);
}

DeviceRow device_row(const BatchRequest& r, int64_t devices) {
  const double own = seconds_to_loss(r, r.own, r.devices);
  DeviceRow row{.devices = devices, .seconds_at_best = std::numeric_limits<double>::infinity()};
  row.seconds_at_own =
      r.own < devices ? std::numeric_limits<double>::infinity() : seconds_to_loss(r, r.own, devices) / own;
  for (int times = -kMostDoublings; times <= 2 * kMostDoublings; ++times) {
    const int64_t e = doubled(r.own, times);
    if (e < devices || (e > r.dataset_size && e != r.own)) continue;
    const double seconds = seconds_to_loss(r, e, devices) / own;
    if (seconds >= row.seconds_at_best) continue;
    row.seconds_at_best = seconds;
    row.best_effective = e;
  }
  return row;
}

// The first number of devices beyond which no larger one gains.
std::optional<int64_t> last_worthwhile(const std::vector<DeviceRow>& rows, double DeviceRow::*seconds) {
  for (size_t i = 0; i + 1 < rows.size(); ++i) {
    const DeviceRow& best = std::ranges::min(std::span(rows).subspan(i + 1), {}, seconds);
    if (best.*seconds > (1 - kWorthDevices) * rows[i].*seconds) return rows[i].devices;
  }
  return std::nullopt;
}

void add_devices(const BatchRequest& r, BatchAdvice& advice) {
  for (int64_t devices = 1; devices <= std::min(kMostDevices, r.dataset_size); devices *= 2) {
    const DeviceRow row = device_row(r, devices);
    if (row.best_effective > 0) advice.devices.push_back(row);
  }
  advice.most_devices = last_worthwhile(advice.devices, &DeviceRow::seconds_at_best);
  advice.most_devices_own = last_worthwhile(advice.devices, &DeviceRow::seconds_at_own);
}

}  // namespace

int64_t ExecutionModel::micro_batch_of(int64_t share) const {
  return executed_micro_batch({.share = share, .capacity = capacity, .cut = cut, .minimum = smallest_piece});
}

double ExecutionModel::piece_seconds(int64_t samples) const {
  const auto x = static_cast<double>(samples);
  if (points.size() == 1)  // no line: nothing shows that fewer samples take less, or that more gain speed
    return points[0].seconds * std::max(1.0, x / static_cast<double>(points[0].micro_batch));
  const auto above =
      std::ranges::find_if(points, [&](const SpeedPoint& point) { return point.micro_batch >= samples; });
  const auto right = std::clamp(above, points.begin() + 1, points.end() - 1), left = right - 1;
  const double line = on_line(x, static_cast<double>(left->micro_batch), left->seconds,
                              static_cast<double>(right->micro_batch), right->seconds);
  return std::max(line, update_seconds);
}

double ExecutionModel::seconds_of(int64_t effective, int64_t devices) const {
  const int64_t share = ceil_div(effective, devices);
  const int64_t micro_batch = micro_batch_of(share);
  const int64_t whole = share / micro_batch, rest = share % micro_batch;
  double seconds = static_cast<double>(whole) * (piece_seconds(micro_batch) - update_seconds);
  if (rest > 0) seconds += piece_seconds(rest) - update_seconds;
  return seconds + update_seconds + (devices > 1 ? exchange_seconds.value_or(0) : 0);
}

std::optional<int64_t> ExecutionModel::peak_of(int64_t micro_batch) const {
  const auto same = std::ranges::find(peaks, micro_batch, &std::pair<int64_t, int64_t>::first);
  if (same != peaks.end()) return same->second;
  if (peaks.size() < 2) return std::nullopt;
  const auto above = std::ranges::find_if(peaks, [&](const auto& peak) { return peak.first >= micro_batch; });
  const auto right = std::clamp(above, peaks.begin() + 1, peaks.end() - 1), left = right - 1;
  const double line = on_line(static_cast<double>(micro_batch), static_cast<double>(left->first),
                              static_cast<double>(left->second), static_cast<double>(right->first),
                              static_cast<double>(right->second));
  return std::llround(std::max(0.0, line));
}

double ExecutionModel::uncertainty_of(int64_t micro_batch) const {
  const auto right =
      std::ranges::find_if(points, [&](const SpeedPoint& point) { return point.micro_batch >= micro_batch; });
  if (right == points.end()) return points.back().uncertainty;
  if (right == points.begin() || right->micro_batch == micro_batch) return right->uncertainty;
  return std::max(right->uncertainty, std::prev(right)->uncertainty);
}

bool ExecutionModel::measured(int64_t micro_batch) const {
  return std::ranges::count(points, micro_batch, &SpeedPoint::micro_batch) > 0;
}

Ranged samples_ratio(int64_t effective, int64_t own, const NoiseScale& noise) {
  const auto e = static_cast<double>(effective), o = static_cast<double>(own);
  const double at_low = ratio_at(noise.low, e, o);
  const double at_high = ratio_at(noise.high.value_or(std::numeric_limits<double>::infinity()), e, o);
  Ranged ratio{.low = std::min(at_low, at_high), .high = std::max(at_low, at_high)};
  if (noise.samples && noise.high) ratio.value = ratio_at(*noise.samples, e, o);
  return ratio;
}

std::vector<int64_t> batch_sizes(int64_t own, int64_t devices, int64_t dataset_size, int64_t capacity,
                                 const std::optional<NoiseScale>& noise) {
  constexpr double kBelow = 16, kAbove = 4;  // the knee is to be seen
  double low = static_cast<double>(std::min(own, capacity * devices)), high = static_cast<double>(own);
  if (noise) {
    low = std::min(low, noise->samples.value_or(noise->low));
    high = std::max(high, noise->high.value_or(noise->low));
  }
  std::vector<int64_t> sizes;
  for (int doublings = -kMostDoublings; doublings <= kMostDoublings; ++doublings) {
    const int64_t e = doubled(own, doublings);
    const bool useful = static_cast<double>(e) >= low / kBelow && static_cast<double>(e) <= high * kAbove;
    const bool possible = e >= devices && e <= dataset_size && (sizes.empty() || e > sizes.back());
    if (e == own || (useful && possible)) sizes.push_back(e);
  }
  return sizes;
}

BatchAdvice advise_batch(const BatchRequest& request) {
  BatchAdvice advice;
  for (const int64_t e : batch_sizes(request.own, request.devices, request.dataset_size,
                                     request.execution.capacity, request.noise)) {
    if (e == request.own) advice.own = advice.advised = advice.rows.size();
    advice.rows.push_back(row_of(request, e));
  }
  advice.knee = knee_of(advice.rows, request.throughput_share);
  if (!request.noise) return advice;
  judge(advice);
  if (request.noise->samples && request.noise->high) add_devices(request, advice);
  return advice;
}

}  // namespace autotrain
