#include "sweep/sweep_point.h"

#include <ATen/Parallel.h>
#include <ATen/ops/linear.h>
#include <sys/resource.h>

#include <algorithm>

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/units.h"
#include "device/system_memory.h"
#include "measure/bandwidth.h"
#include "measure/machine.h"
#include "measure/measure_enums.h"
#include "measure/timing.h"
#include "recipe/recipe_enums.h"
#include "sweep/point_memory.h"

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kWarmUpCalls = 3;
constexpr double kWarmUpShare = 0.1, kObservedShare = 0.2;  // of the time for repeats

void stop_if_asked() {
  stop_if_interrupted("sweep", "a signal stopped it; finished points are kept");
}

double timed_call(Subject& subject) {
  stop_if_asked();
  const Stopwatch watch;
  subject.call();
  subject.device().synchronize();
  return watch.seconds();
}

void warm_up(Subject& subject, double seconds) {
  const Stopwatch watch;
  for (int calls = 0; calls < kWarmUpCalls || watch.seconds() < seconds; ++calls) timed_call(subject);
}

struct Repeats {
  std::vector<double> seconds;
  RepeatEnd end = RepeatEnd::kSeconds;
};

Repeats repeat(Subject& subject, const RepeatRule& rule) {
  Repeats repeats;
  const Stopwatch watch;
  std::optional<RepeatEnd> end;
  while (!end) {
    repeats.seconds.push_back(timed_call(subject));
    end = repeat_end(repeats.seconds, watch.seconds(), rule);
  }
  repeats.end = *end;
  return repeats;
}

int64_t swapped_bytes() {
  const auto status = read_kernel_table("/proc/self/status");
  const auto swapped = status.find("VmSwap");
  return swapped == status.end() ? 0 : swapped->second * kKiB;
}

int64_t major_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_majflt;
}

// The observed call of median length among a few: observing takes time, so that its bench are what counts.
std::optional<ForwardCount> observe(Subject& subject, double seconds) {
  constexpr size_t kLeast = 3, kMost = 21;
  std::vector<ForwardCount> calls;
  for (const Stopwatch watch; calls.size() < kLeast || (watch.seconds() < seconds && calls.size() < kMost);) {
    stop_if_asked();
    std::optional<ForwardCount> call = subject.observe();
    if (!call) return std::nullopt;
    calls.push_back(std::move(*call));
  }
  const auto middle = calls.begin() + static_cast<std::ptrdiff_t>(calls.size() / 2);
  std::ranges::nth_element(calls, middle, {}, &ForwardCount::seconds);
  return std::move(*middle);
}

Json products_json(const ForwardCount& call) {
  Json rows = Json::array();
  for (const OperatorCount& each : call.operators) {
    if (each.flops == 0) continue;
    rows.push_back({{"module", each.module},
                    {"shape", each.shape},
                    {"flops", each.flops},
                    {"bytes", each.bytes},
                    {"seconds", each.seconds}});
  }
  return rows;
}

// Where the time of a call goes.
Json time_json(const ForwardCount& call) {
  double products = 0, others = 0;
  for (const OperatorCount& each : call.operators) (each.flops > 0 ? products : others) += each.seconds;
  return {{"products_seconds", products},
          {"others_seconds", others},
          {"between_seconds", call.seconds - products - others},
          {"products_flops", call.flops()}};
}

Json point_json(Subject& subject, const SweepRecipe& sweep) {
  const int64_t faults_before = major_faults();
  const std::optional<MachineSwapping> swapping_before = machine_swapping();
  warm_up(subject, kWarmUpShare * sweep.max_seconds);
  const bool recorded = subject.record_calls();
  const Repeats repeats = repeat(subject, {.seconds = sweep.max_seconds});
  subject.device().memory().sample_outside_bytes();
  const MemoryPeak peak = subject.device().memory().peak();
  const int64_t faults = major_faults() - faults_before;
  const std::optional<MachineSwapping> swapping = machine_swapping();
  const bool swapping_told = swapping_before && swapping;
  const bool inference = sweep.mode == SweepMode::kInference;
  const std::optional<ForwardCount> call = observe(subject, kObservedShare * sweep.max_seconds);
  const auto copies = subject.copy_seconds();
  return {
      {"latencies_seconds", repeats.seconds},
      {"ended_by", to_string(repeats.end)},
      {"cuda_graphs", recorded},
      {"peak_bytes", peak.total_bytes()},
      {"allocated_bytes", peak.allocated_bytes},
      {"reserved_bytes", peak.reserved_bytes},
      {"budget_bytes", subject.device().budget_bytes()},
      {"allocator_retries", peak.retries},
      {"swapped_bytes", swapped_bytes()},
      {"major_faults", faults},
      {"machine_swapped_in_bytes", swapping_told ? Json(swapping->in - swapping_before->in) : Json(nullptr)},
      {"machine_swapped_out_bytes",
       swapping_told ? Json(swapping->out - swapping_before->out) : Json(nullptr)},
      {"copy_to_device_seconds", copies ? Json(copies->to_device) : Json(nullptr)},
      {"copy_to_host_seconds", copies ? Json(copies->to_host) : Json(nullptr)},
      {"forward_bytes", inference ? Json(call->bytes()) : Json(nullptr)},
      {"time", call ? time_json(*call) : Json(nullptr)},
      {"products", inference ? products_json(*call) : Json::array()}};
}

// Times one call of the smallest linear layer: what an operator costs beside its arithmetic.
double operator_seconds(const Device& device) {
  const c10::InferenceMode no_gradients;
  const auto options = torch::TensorOptions().device(device.torch_device());
  const torch::Tensor input = torch::ones({1, 8}, options), weight = torch::ones({8, 8}, options),
                      bias = torch::ones({8}, options);
  std::vector<double> seconds;
  for (int i = 0; i < 2000; ++i) {
    const Stopwatch watch;
    at::linear(input, weight, bias);
    seconds.push_back(watch.seconds());
  }
  return median_of(std::move(seconds));
}

// Weights are moved once however many samples there are: the more, the less they count.
Json intensity_at_large_batch(const OperatorCount& counted) {
  const int64_t bytes = counted.bytes - counted.weight_bytes;
  return bytes > 0 ? Json(counted.flops / static_cast<double>(bytes)) : Json(nullptr);
}

Json operators_json(const ForwardCount& counts) {
  Json rows = Json::array();
  for (const OperatorCount& each : counts.operators) {
    rows.push_back({{"operator", each.name},
                    {"module", each.module},
                    {"kind", to_string(each.kind)},
                    {"shape", each.shape},
                    {"flops", each.flops},
                    {"backward_flops", each.backward_flops},
                    {"bytes", each.bytes},
                    {"weight_bytes", each.weight_bytes},
                    {"intensity", each.intensity()},
                    {"intensity_at_large_batch", intensity_at_large_batch(each)}});
  }
  return rows;
}

}  // namespace

Json measure_point(Subject& subject, const SweepRecipe& sweep, int64_t batch) {
  subject.load(batch);
  subject.device().memory().reset_peak();
  return point_json(subject, sweep);
}

Json measure_point(const Recipe& recipe, int64_t batch) {
  const auto subject = make_subject(recipe);
  return of_batch(batch, [&] { return measure_point(*subject, recipe.sweep, batch); });
}

Json measure_variant(Subject& subject, const SweepRecipe& sweep, bool with_figures) {
  const bool trains = sweep.mode == SweepMode::kTraining;
  const int64_t batch = trains ? 2 : 1;  // batch normalisation needs two
  subject.load(batch);
  const ForwardCount counts = of_batch(batch, [&] { return subject.count(); });
  const auto figures = with_figures ? subject.evaluate() : std::map<std::string, double>{};
  Device& device = subject.device();
  const int64_t working_set = counts.weight_bytes() * (trains ? 4 : 1);  // gradients, two moments
  device.memory().remove_limit();  // the machine is measured, not the part of it that the recipe may use
  return {{"precision", to_string(subject.precision())},
          {"samples", batch},
          {"flops", counts.flops()},
          {"backward_flops", counts.backward_flops()},
          {"bytes", counts.bytes()},
          {"weight_bytes", counts.weight_bytes()},
          {"weight_read_bytes_per_second", read_bytes_per_second(device, working_set)},
          {"operator_seconds", operator_seconds(device)},
          {"figures", figures},
          {"operators", operators_json(counts)},
          {"machine", to_json(measure_machine(device, std::min(kMachineSeconds, sweep.max_seconds)))}};
}

Json measure_variant(const Recipe& recipe) {
  return measure_variant(*make_subject(recipe), recipe.sweep, recipe.weights.file.has_value());
}

}  // namespace autotrain
