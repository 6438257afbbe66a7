#include "study/machine.h"

#include <ATen/Parallel.h>
#include <sched.h>
#include <torch/types.h>

#include <algorithm>

#include "base/clock.h"

namespace autotrain {
namespace {

constexpr double kSeconds = 0.5;       // of each measurement
constexpr int64_t kCopied = 64 << 20;  // bytes: beyond any cache
constexpr int64_t kSideOnCpu = 1024;   // of the matrices
constexpr int64_t kSideOnGpu = 8192;

// The shortest time of `work`, repeated for a while after one trial run.
template <class Work>
double best_seconds(const Device& device, Work work) {
  const auto once = [&] {
    const Stopwatch watch;
    work();
    device.synchronize();
    return watch.seconds();
  };
  once();
  double best = once();
  for (const Stopwatch all; all.seconds() < kSeconds;) best = std::min(best, once());
  return best;
}

double matrix_flops(const Device& device, torch::ScalarType type) {
  const int64_t side = device.torch_device().is_cpu() ? kSideOnCpu : kSideOnGpu;
  const auto options = torch::TensorOptions().dtype(type).device(device.torch_device());
  const torch::Tensor a = torch::full({side, side}, 0.5, options), b = a.clone(),
                      product = torch::empty_like(a);
  torch::Tensor out = product;
  const double seconds = best_seconds(device, [&] { at::mm_out(out, a, b); });
  return 2.0 * static_cast<double>(side) * static_cast<double>(side) * static_cast<double>(side) / seconds;
}

double copy_rate(const Device& device) {
  const auto options = torch::TensorOptions().dtype(torch::kUInt8).device(device.torch_device());
  const torch::Tensor from = torch::zeros({kCopied}, options);
  torch::Tensor to = torch::empty_like(from);
  const double seconds = best_seconds(device, [&] { to.copy_(from); });
  return 2.0 * static_cast<double>(kCopied) / seconds;
}

}  // namespace

int64_t usable_processors() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  return ::sched_getaffinity(0, sizeof(allowed), &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
}

MachineFigures measure_machine(Device& device) {
  MachineFigures machine{.device = device.torch_device().str(),
                         .name = device.name(),
                         .software = device.software(),
                         .processors = usable_processors(),
                         .cores = usable_cores(),
                         .threads = at::get_num_threads(),
                         .budget_bytes = device.budget_bytes(),
                         .budget_source = device.budget_source()};
  machine.copy_bytes_per_second = copy_rate(device);
  machine.rates.push_back({"fp32", matrix_flops(device, torch::kFloat32)});
  if (device.has_native_bf16()) machine.rates.push_back({"bf16", matrix_flops(device, torch::kBFloat16)});
  if (!device.torch_device().is_cpu()) machine.rates.push_back({"fp16", matrix_flops(device, torch::kHalf)});
  return machine;
}

}  // namespace autotrain
