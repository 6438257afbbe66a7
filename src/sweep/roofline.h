#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "autotrain/sweep_result.h"
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

/// @param points of distinct batches, in any order. Nothing of fewer than two.
std::optional<Knee> find_knee(std::vector<BatchLatency> points);

/// What the points say, in sentences: what is free, beyond what nothing is gained.
std::vector<std::string> latency_advice(std::vector<BatchLatency> points);

}  // namespace autotrain
