#include "sweep/roofline.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "base/units.h"

namespace autotrain {
namespace {

constexpr double kStillRising = 1.25;  // times the throughput of half the largest batch
constexpr double kFree = 1.10;         // times the latency of a batch of at most half the size
constexpr double kAsGood = 0.95;       // of the best throughput

double rate(const BatchLatency& point) {
  return static_cast<double>(point.batch) / point.seconds;
}

void sort_by_batch(std::vector<BatchLatency>& points) {
  std::ranges::sort(points, {}, &BatchLatency::batch);
}

// Latency at a batch within the range, on a line between its neighbours in logarithms of both.
double latency_at(const std::vector<BatchLatency>& points, double batch) {
  const auto above = std::ranges::find_if(
      points, [&](const BatchLatency& point) { return static_cast<double>(point.batch) >= batch; });
  if (above == points.begin()) return above->seconds;
  const auto below = above - 1;
  const double share = std::log(batch / static_cast<double>(below->batch)) /
                       std::log(static_cast<double>(above->batch) / static_cast<double>(below->batch));
  return below->seconds * std::pow(above->seconds / below->seconds, share);
}

// Where none was measured between a quarter of the largest batch and it, nobody can tell: then yes.
bool still_rising(const std::vector<BatchLatency>& points) {
  const auto last = static_cast<double>(points.back().batch);
  if (4 * static_cast<double>(points[points.size() - 2].batch) < last) return true;
  if (last / 2 < static_cast<double>(points.front().batch)) return true;  // too narrow a range
  if (rate(points.back()) > kStillRising * rate(points[points.size() - 2])) return true;
  return rate(points.back()) > kStillRising * last / 2 / latency_at(points, last / 2);
}

// The two batches furthest apart, by twice at least, of which the larger is free; one batch twice: there are
// none.
std::pair<BatchLatency, BatchLatency> widest_plateau(const std::vector<BatchLatency>& points) {
  std::pair<BatchLatency, BatchLatency> widest = {points[0], points[0]};
  const auto width = [](const BatchLatency& from, const BatchLatency& to) {
    return static_cast<double>(to.batch) / static_cast<double>(from.batch);
  };
  for (size_t i = 0; i < points.size(); ++i) {
    for (size_t j = i + 1; j < points.size(); ++j) {
      const bool free = width(points[i], points[j]) >= 2 && points[j].seconds <= kFree * points[i].seconds;
      if (free && width(points[i], points[j]) > width(widest.first, widest.second))
        widest = {points[i], points[j]};
    }
  }
  return widest;
}

std::string free_sentence(const std::vector<BatchLatency>& points) {
  const auto [from, to] = widest_plateau(points);
  const BatchLatency& shortest = *std::ranges::min_element(points, {}, &BatchLatency::seconds);
  if (to.batch > from.batch) {
    const double more = to.seconds / from.seconds - 1;
    const bool is_shortest = from.seconds <= kFree * shortest.seconds;
    return cat("batch ", to.batch, " costs ", more < 0.005 ? "no" : format_percent(more, 0),
               " more latency than batch ", from.batch, ": free",
               is_shortest
                   ? ""
                   : cat(", though batch ", from.batch, " takes ", fixed(from.seconds / shortest.seconds, 1),
                         " times as long as batch ", shortest.batch));
  }
  const BatchLatency &first = points[0], &next = points[1];
  return cat("batch ", next.batch, " takes ", fixed(next.seconds / first.seconds, 1),
             " times as long as batch ", first.batch,
             next.batch <= 2 * first.batch ? ": nothing is free" : "; no size between them was measured");
}

std::string gain_sentence(const std::vector<BatchLatency>& points) {
  const double best = rate(*std::ranges::max_element(points, {}, rate));
  const auto enough =
      std::ranges::find_if(points, [&](const BatchLatency& point) { return rate(point) >= kAsGood * best; });
  if (enough->batch != points.back().batch) return cat("beyond ", enough->batch, " nothing is gained");
  const BatchLatency &last = points.back(), &before = points[points.size() - 2];
  return cat("throughput rises by ", format_percent(rate(last) / rate(before) - 1, 0), " from batch ",
             before.batch, " to ", last.batch, ", the largest measured");
}

}  // namespace

double critical_batch(double weight_bytes, const Roof& roof) {
  return weight_bytes * roof.flops_per_second / (2 * roof.bytes_per_second);
}

double critical_batch(double model_weight_bytes, double flops_per_sample, const Roof& roof) {
  return model_weight_bytes / roof.bytes_per_second * roof.flops_per_second / flops_per_sample;
}

std::optional<Knee> find_knee(std::vector<BatchLatency> points) {
  if (points.size() < 2) return std::nullopt;
  sort_by_batch(points);
  const auto best = std::ranges::max_element(points, {}, rate);
  const auto shortest = std::ranges::min_element(points, {}, &BatchLatency::seconds);
  Knee knee{.flat_seconds = shortest->seconds,
            .flat_batch = shortest->batch,
            .best_rate = rate(*best),
            .best_batch = best->batch};
  knee.batch = knee.flat_seconds * knee.best_rate;
  knee.reached = best != points.end() - 1 || !still_rising(points);
  knee.below_range = knee.reached && knee.batch < kFree * static_cast<double>(points.front().batch);
  return knee;
}

std::vector<std::string> latency_advice(std::vector<BatchLatency> points) {
  if (points.size() < 2) return {};
  sort_by_batch(points);
  return {free_sentence(points), gain_sentence(points)};
}

}  // namespace autotrain
