#include "sweep/sweep_analysis.h"

#include <algorithm>

#include "base/json.h"
#include "base/text.h"
#include "base/units.h"
#include "optim/optimizer.h"
#include "sweep/call_times.h"

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;

void take_latencies(const std::vector<StudyResult>& rounds, SweepPoint& point) {
  const CallTimes times = call_times(rounds);
  point.repeats = std::ssize(times.sorted);
  point.p50_seconds = times.at(0.5);
  point.p90_seconds = times.at(0.9);
  point.p99_seconds = times.at(0.99);
  point.half_width = times.half_width;
  point.drift = times.drift;
}

// Takes the times of the round whose observed call is of middle length.
void take_time(const std::vector<StudyResult>& rounds, SweepPoint& point) {
  std::vector<const Json*> times;
  const auto part = [](const Json* time, const char* name) { return time->at(name).get<double>(); };
  const auto length = [&](const Json* time) {
    return part(time, "products_seconds") + part(time, "others_seconds") + part(time, "between_seconds");
  };
  for (const StudyResult& round : rounds) {
    if (round.value.at("time").is_object()) times.push_back(&round.value.at("time"));
  }
  if (times.empty()) return;
  std::ranges::sort(times, {}, length);
  const Json* const time = times[times.size() / 2];
  const double products = part(time, "products_seconds");
  point.products_share = products / length(time);
  point.others_share = part(time, "others_seconds") / length(time);
  if (products > 0) point.products_flops_per_second = part(time, "products_flops") / products;
}

// The gradient is written once, read once for its norm and once by the optimizer, which also reads and
// writes the weight and what it keeps for it. In bytes for each weight, all float32.
double update_bytes(const OptimizerRecipe& optimizer) {
  constexpr double kWriteAndNorm = 8, kStep = 12, kOneMoment = 8;
  return kWriteAndNorm + kStep + kOneMoment * static_cast<double>(moments_per_weight(optimizer));
}

// Bytes that move once a batch whatever its size: weights are read; in training the backward pass reads them
// too, and each has a gradient and an optimizer.
double moved_weight_bytes(const Recipe& recipe, double weight_bytes) {
  if (recipe.sweep.mode == SweepMode::kInference) return weight_bytes;
  constexpr double kWeightBytes = 4;
  return 2 * weight_bytes + weight_bytes / kWeightBytes * update_bytes(recipe.optimizer);
}

bool same_device(const Json& a, const Json& b) {
  return a.is_object() && b.is_object() && a.at("device") == b.at("device") &&
         a.at("threads") == b.at("threads");
}

double peak_flops_in(const std::string& precision, const Sweep& sweep, const SweepVariant& variant) {
  double best = 0;
  for (const SweepVariant& other : sweep.variants) {
    if (!same_device(other.machine, variant.machine)) continue;
    best = std::max(best, other.machine.at("flops").value(precision, 0.0));
  }
  return best;
}

double level_rate(const Json& machine, const std::string& name) {
  for (const Json& level : machine.at("memory_levels")) {
    if (level.at("name") == name) return level.at("read_bytes_per_second");
  }
  return 0;
}

// Bytes that were read over and over to measure the bandwidth: weights, and in training gradients and
// moments.
double working_set_bytes(const Sweep& sweep, const SweepVariant& variant) {
  double bytes = 0;
  for (const Json& each : variant.counted) bytes += each.value("weight_bytes", 0.0);
  return bytes * (sweep.mode == SweepMode::kTraining ? 4 : 1);
}

bool fits_a_cache(double bytes, const Json& machine) {
  return std::ranges::any_of(machine.at("memory_levels"),
                             [&](const Json& level) { return bytes <= level.at("bytes").get<double>(); });
}

// Beyond the caches all variants read the same memory, which no reading of it makes faster than it is.
double peak_bytes_per_second(const Sweep& sweep, const SweepVariant& variant) {
  double best = variant.roof.bytes_per_second;
  if (!variant.machine.is_object() || fits_a_cache(working_set_bytes(sweep, variant), variant.machine))
    return best;
  for (const SweepVariant& other : sweep.variants) {
    if (same_device(other.machine, variant.machine))
      best = std::max(best, level_rate(other.machine, "memory"));
  }
  return best;
}

// The rate that a model can reach which computes a part of its operations in int8 and the rest in fp32: times
// add.
double peak_flops(const Sweep& sweep, const SweepVariant& variant) {
  const double peak = peak_flops_in(variant.precision, sweep, variant);
  if (variant.precision != "int8" || peak == 0) return peak;
  double quantized = 0, all = 0;
  for (const Json& each : variant.counted) {
    const auto flops = each.at("flops").get<double>();
    all += flops;
    if (each.at("operator") == "quantized::linear_dynamic") quantized += flops;
  }
  return all / (quantized / peak + (all - quantized) / peak_flops_in("fp32", sweep, variant));
}

void rate_points(const Sweep& sweep, SweepVariant& variant) {
  const bool inference = sweep.mode == SweepMode::kInference;
  for (SweepPoint& point : variant.points) {
    if (!point.failure.empty()) continue;
    point.flops_per_second = point.samples_per_second * variant.flops_per_sample;
    if (!inference) point.bytes_per_second.reset();
  }
}

void explain(SweepVariant& variant) {
  const Knee& knee = *variant.knee;
  KneeExplanation e;
  e.slower = knee.flat_seconds * variant.roof.bytes_per_second / variant.weight_bytes;
  e.efficiency = knee.best_rate * variant.flops_per_sample / variant.roof.flops_per_second;
  e.ratio = knee.batch / variant.predicted;
  e.calls = static_cast<double>(variant.operators) * variant.operator_seconds / knee.flat_seconds;
  variant.explanation = e;
}

// Predicts for a device that nobody measured.
void predict_elsewhere(const Roof& roof, SweepVariant& variant) {
  if (variant.flops_per_sample <= 0) return;
  variant.predicted_elsewhere = critical_batch(variant.weight_bytes, variant.flops_per_sample, roof);
}

void analyse_variant(const Sweep& sweep, SweepVariant& variant) {
  variant.roof = {peak_flops(sweep, variant), peak_bytes_per_second(sweep, variant)};
  rate_points(sweep, variant);
  if (!sweep.device_figures.empty()) predict_elsewhere(*parse_device_figures(sweep.device_figures), variant);
  std::vector<BatchLatency> latencies = latencies_of(variant);
  variant.knee = find_knee(latencies);
  const bool predictable = variant.roof.flops_per_second > 0 && variant.flops_per_sample > 0 &&
                           variant.weight_bytes > 0 && variant.roof.bytes_per_second > 0;
  if (!predictable) return;
  variant.predicted = critical_batch(variant.weight_bytes, variant.flops_per_sample, variant.roof);
  if (variant.knee) explain(variant);
}

}  // namespace

SweepPoint summarise_point(int64_t batch, const std::vector<StudyResult>& rounds) {
  SweepPoint point{.batch = batch};
  for (const StudyResult& round : rounds) {
    if (!round.failed()) continue;
    point.failure = first_line(round.failure);
    point.code = round.code;
    return point;
  }
  take_latencies(rounds, point);
  take_time(rounds, point);
  point.samples_per_second = static_cast<double>(batch) / point.p50_seconds;
  for (const StudyResult& round : rounds) {
    const Json& v = round.value;
    point.ended_by = v.at("ended_by");
    point.cuda_graphs = v.value("cuda_graphs", false);
    point.peak_bytes = std::max(point.peak_bytes, v.at("peak_bytes").get<int64_t>());
    point.fill = static_cast<double>(point.peak_bytes) / v.at("budget_bytes").get<double>();
    point.allocator_retries += v.at("allocator_retries").get<int64_t>();
    point.swapped_bytes = std::max(point.swapped_bytes, v.at("swapped_bytes").get<int64_t>());
    point.major_faults += v.at("major_faults").get<int64_t>();
    if (const auto bytes = optional_number(v.at("forward_bytes"))) {
      point.bytes_per_second = *bytes / point.p50_seconds;
    }
    point.copy_to_device_seconds = optional_number(v.at("copy_to_device_seconds"));
    point.copy_to_host_seconds = optional_number(v.at("copy_to_host_seconds"));
  }
  return point;
}

void take_model(const Recipe& recipe, const StudyResult& result, SweepVariant& variant) {
  if (result.failed()) {
    variant.failure = first_line(result.failure);
    return;
  }
  const Json& v = result.value;
  const auto samples = v.at("samples").get<double>();
  const bool trains = recipe.sweep.mode == SweepMode::kTraining;
  variant.precision = v.at("precision");
  variant.counted_samples = v.at("samples");
  variant.flops_per_sample =
      (v.at("flops").get<double>() + (trains ? v.at("backward_flops").get<double>() : 0)) / samples;
  variant.weight_bytes = moved_weight_bytes(recipe, v.at("weight_bytes").get<double>());
  variant.roof.bytes_per_second = v.at("weight_read_bytes_per_second");
  variant.counted = v.at("operators");
  variant.operators = variant.counted.size();
  variant.operator_seconds = v.at("operator_seconds");
  variant.figures = numbers_of(v.at("figures"));
  variant.machine = v.at("machine");
}

std::vector<BatchLatency> latencies_of(const SweepVariant& variant) {
  std::vector<BatchLatency> latencies;
  for (const SweepPoint& point : variant.points) {
    if (point.failure.empty()) latencies.push_back({point.batch, point.p50_seconds});
  }
  return latencies;
}

void analyse(Sweep& sweep) {
  for (SweepVariant& variant : sweep.variants) analyse_variant(sweep, variant);
}

}  // namespace autotrain
