#include "measure/machine.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <torch/types.h>

#include <algorithm>

#include "base/clock.h"
#include "base/units.h"
#include "device/cache_levels.h"
#include "device/cores.h"
#include "measure/bandwidth.h"
#include "measure/random_numbers.h"
#include "model/linear.h"
#include "step/precision.h"

namespace autotrain {
namespace {

constexpr int64_t kLeastOnGpu = 64 * kMiB;

// Of `bytes` far beyond any cache; on a GPU so many that a pass takes far longer than its launch, or as many
// as there is room for.
template <class Rate>
double rate_of_memory(const Device& device, int64_t bytes_on_cpu, Rate rate) {
  if (device.torch_device().is_cpu()) return rate(bytes_on_cpu);
  for (int64_t bytes = kGiB;; bytes /= 2) {
    try {
      return rate(bytes);
    } catch (const c10::OutOfMemoryError&) {
      if (bytes <= kLeastOnGpu) throw;
    }
  }
}

// The shortest time of `work`, repeated for a while after one trial run.
template <class Work>
double best_seconds(const Device& device, double seconds, Work work) {
  const auto once = [&] {
    const Stopwatch watch;
    work();
    device.synchronize();
    return watch.seconds();
  };
  once();
  double best = once();
  for (const Stopwatch all; all.seconds() < seconds;) best = std::min(best, once());
  return best;
}

struct ProductShape {
  int64_t rows, depth, columns;
};

// Square ones, and those of wide layers at the batches where they are worth measuring.
std::vector<ProductShape> product_shapes(const Device& device) {
  if (!device.torch_device().is_cpu()) return {{8192, 8192, 8192}, {4096, 4096, 4096}};
  return {{1024, 1024, 1024}, {512, 1024, 1024}, {512, 4096, 4096}, {2048, 512, 512}};
}

// Multiplies as layers do: weights are [columns, depth], and each row of the input meets each row of them.
double product_flops(const Device& device, double seconds, torch::ScalarType type,
                     const ProductShape& shape) {
  const torch::Tensor inputs = random_numbers(device, type, {shape.rows, shape.depth});
  const torch::Tensor weights = random_numbers(device, type, {shape.columns, shape.depth});
  const double best = best_seconds(device, seconds, [&] { at::linear(inputs, weights); });
  return 2.0 * static_cast<double>(shape.rows * shape.depth * shape.columns) / best;
}

// Eight-bit weights and inputs rounded on the way, on a CPU.
double int8_flops(const Device& device, double seconds, const ProductShape& shape) {
  Linear layer(torch::nn::LinearOptions(shape.depth, shape.columns).bias(false));
  layer->quantize();
  const torch::Tensor inputs = random_numbers(device, torch::kFloat32, {shape.rows, shape.depth});
  const double best = best_seconds(device, seconds, [&] { layer->forward(inputs); });
  return 2.0 * static_cast<double>(shape.rows * shape.depth * shape.columns) / best;
}

template <class Rate>
double best_rate(const Device& device, Rate rate) {
  double best = 0;
  for (const ProductShape& shape : product_shapes(device)) best = std::max(best, rate(shape));
  return best;
}

std::vector<MachineFigures::Rate> product_rates(Device& device, double seconds) {
  const torch::NoGradGuard no_gradients;
  const auto of = [&](torch::ScalarType type) {
    return best_rate(device,
                     [&](const ProductShape& shape) { return product_flops(device, seconds, type, shape); });
  };
  set_products(Precision::kFp32, device);
  std::vector<MachineFigures::Rate> rates = {{"fp32", of(torch::kFloat32)}};
  if (device.has_tf32()) {
    set_products(Precision::kTf32, device);
    rates.push_back({"tf32", of(torch::kFloat32)});
    set_products(Precision::kFp32, device);
  }
  if (device.has_native_bf16()) rates.push_back({"bf16", of(torch::kBFloat16)});
  if (device.torch_device().is_cpu()) {
    rates.push_back({"int8", best_rate(device, [&](const ProductShape& shape) {
                       return int8_flops(device, seconds, shape);
                     })});
  } else {
    rates.push_back({"fp16", of(torch::kHalf)});
  }
  return rates;
}

std::vector<MachineFigures::Level> memory_levels(const Device& device, double seconds) {
  std::vector<MachineFigures::Level> levels;
  const int64_t threads = at::get_num_threads();
  if (device.torch_device().is_cpu()) {
    for (const CacheLevel& cache : cache_levels()) {
      const int64_t bytes = cache.bytes * std::max<int64_t>(1, threads / cache.processors);
      levels.push_back({cache.name, bytes, read_bytes_per_second(device, bytes / 2, seconds)});
    }
  }
  levels.push_back({"memory", 0, rate_of_memory(device, 256 * kMiB, [&](int64_t bytes) {
                      return read_bytes_per_second(device, bytes, seconds);
                    })});
  return levels;
}

double copy_rate(const Device& device, double seconds, int64_t bytes) {
  const torch::Tensor from = random_numbers(device, torch::kFloat32, {bytes / int64_t{sizeof(float)}});
  torch::Tensor to = torch::empty_like(from);
  const double best = best_seconds(device, seconds, [&] { to.copy_(from); });
  return 2.0 * static_cast<double>(from.nbytes()) / best;
}

}  // namespace

int64_t usable_processors() {
  return usable_cores().processors;
}

MachineFigures measure_machine(Device& device, double seconds) {
  MachineFigures machine{.device = device.torch_device().str(),
                         .name = device.name(),
                         .software = device.software(),
                         .processors = usable_processors(),
                         .cores = usable_cores().count,
                         .threads = at::get_num_threads(),
                         .budget_bytes = device.budget_bytes(),
                         .budget_source = device.budget_source()};
  machine.copy_bytes_per_second =
      rate_of_memory(device, 64 * kMiB, [&](int64_t bytes) { return copy_rate(device, seconds, bytes); });
  machine.rates = product_rates(device, seconds);
  machine.levels = memory_levels(device, seconds);
  return machine;
}

nlohmann::ordered_json to_json(const MachineFigures& m) {
  nlohmann::ordered_json rates = nlohmann::ordered_json::object(), levels = nlohmann::ordered_json::array();
  for (const auto& rate : m.rates) rates[rate.precision] = rate.flops;
  for (const auto& level : m.levels) {
    levels.push_back(
        {{"name", level.name}, {"bytes", level.bytes}, {"read_bytes_per_second", level.read_rate}});
  }
  return {{"device", m.device},
          {"name", m.name},
          {"software", m.software},
          {"processors", m.processors},
          {"cores", m.cores},
          {"threads", m.threads},
          {"budget_bytes", m.budget_bytes},
          {"budget_source", m.budget_source},
          {"copy_bytes_per_second", m.copy_bytes_per_second},
          {"flops", std::move(rates)},
          {"memory_levels", std::move(levels)}};
}

}  // namespace autotrain
