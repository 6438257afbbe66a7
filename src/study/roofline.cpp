#include "study/roofline.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "base/units.h"

namespace autotrain {
namespace {

constexpr double kStillRising = 1.25;  // times the throughput of half the largest batch
constexpr double kFree = 1.10;         // times the latency of the smallest batch
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

bool still_rising(const std::vector<BatchLatency>& points) {
  const double half = static_cast<double>(points.back().batch) / 2;
  if (half < static_cast<double>(points.front().batch)) return true;  // too narrow a range to tell
  return rate(points.back()) > kStillRising * half / latency_at(points, half);
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
  Knee knee{.flat_seconds = std::ranges::min_element(points, {}, &BatchLatency::seconds)->seconds,
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
  std::vector<std::string> sentences;
  const BatchLatency& first = points.front();
  const auto free = std::find_if(points.rbegin(), points.rend(), [&](const BatchLatency& point) {
    return point.seconds <= kFree * first.seconds;
  });
  if (free->batch > first.batch) {
    const double more = free->seconds / first.seconds - 1;
    sentences.push_back(cat("batch ", free->batch, " costs ", more < 0.005 ? "no" : format_percent(more, 0),
                            " more latency than batch ", first.batch, ": free"));
  } else {
    const BatchLatency& next = points[1];
    sentences.push_back(
        cat("batch ", next.batch, " takes ", fixed(next.seconds / first.seconds, 1),
            " times as long as batch ", first.batch,
            next.batch <= 2 * first.batch ? ": nothing is free" : "; no size between them was measured"));
  }
  const double best = rate(*std::ranges::max_element(points, {}, rate));
  const auto enough =
      std::ranges::find_if(points, [&](const BatchLatency& point) { return rate(point) >= kAsGood * best; });
  if (enough->batch == points.back().batch) {
    sentences.push_back(cat("throughput still rises at ", points.back().batch, ", the largest measured"));
  } else {
    sentences.push_back(cat("beyond ", enough->batch, " nothing is gained"));
  }
  return sentences;
}

}  // namespace autotrain
