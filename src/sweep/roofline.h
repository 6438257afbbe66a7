#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "recipe/axes.h"

namespace autotrain {

/// The two edges of a device's roofline, bytes being those of the level of memory that holds what is read.
using Roof = DeviceFigures;

/// The batch at which a layer that reads each weight once takes as long to compute as to read: with two
/// operations for each weight and sample, s·F ÷ (2·B). docs/roofline.md derives it.
/// @param weight_bytes s: of one weight.
double critical_batch(double weight_bytes, const Roof& roof);

/// The same of a whole model, or of layers that use a weight more than once: the time to read all weights ÷
/// the time to compute one sample.
/// @param model_weight_bytes read once a batch. @param flops_per_sample > 0.
double critical_batch(double model_weight_bytes, double flops_per_sample, const Roof& roof);

/// How long one batch took.
struct BatchLatency {
  int64_t batch = 0;
  double seconds = 0;
};

/// Where a larger batch stops being free: the batch at which the line through the best throughput meets the
/// shortest latency.
struct Knee {
  double batch = 0;          ///< flat_seconds × best_rate
  double flat_seconds = 0;   ///< the shortest latency of any batch
  int64_t flat_batch = 0;    ///< that had it
  double best_rate = 0;      ///< samples a second, the highest of any batch
  int64_t best_batch = 0;    ///< that reached it
  bool reached = false;      ///< false: throughput still rose at the largest batch, so the knee is further
  bool below_range = false;  ///< the smallest batch is beyond the knee already
};

/// @param points of distinct batches, in any order. Nothing of fewer than two.
std::optional<Knee> find_knee(std::vector<BatchLatency> points);

/// What the points say, in sentences: what is free, beyond what nothing is gained.
std::vector<std::string> latency_advice(std::vector<BatchLatency> points);

}  // namespace autotrain
