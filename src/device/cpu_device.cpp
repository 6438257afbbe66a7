#include "device/cpu_device.h"

#include <ATen/Context.h>
#include <ATen/cpu/Utils.h>
#include <malloc.h>
#include <pthread.h>
#include <torch/version.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/text.h"
#include "base/units.h"
#include "device/cpu_meter.h"
#include "device/kernel_caches.h"
#include "device/system_memory.h"
#include "device/warm_up.h"

namespace autotrain {
namespace {

std::string read_cpu_name() {
  WithoutLocale<std::ifstream> in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("model name")) return std::string(trim(line.substr(line.find(':') + 1)));
  }
  return "CPU";
}

bool cpu_has(const char* capability) {
  const auto capabilities = at::cpu::get_cpu_capabilities();
  const auto found = capabilities.find(capability);
  return found != capabilities.end() && found->second.isBool() && found->second.toBool();
}

// Tensors no longer come from the C library's heap, but the scratch memory of libraries does. By default
// glibc raises its threshold for separate mappings each time one is freed, and then keeps up to 64 MiB: each
// trial of a search made the next one look some 20 MiB larger. Setting the threshold stops that. It also
// keeps a heap for every thread that allocates, up to eight for each core, of 64 MiB of addresses each, which
// count where addresses are limited; what a heap had at most it hardly gives back.
void keep_heap_small() {
  constexpr int kSeparateFrom = 128 << 10;  // glibc's own first value
  constexpr int kArenas = 4;
  ::mallopt(M_MMAP_THRESHOLD, kSeparateFrom);
  ::mallopt(M_ARENA_MAX, ResourceLimits::of_this_process().address_space >= 0 ? 1 : kArenas);
}

int64_t bytes_of(const Budget& budget, int64_t available_bytes) {
  switch (budget.kind) {
    case Budget::Kind::kAuto: break;
    case Budget::Kind::kShare:
      return static_cast<int64_t>(budget.share * static_cast<double>(available_bytes));
    case Budget::Kind::kBytes: return std::min(budget.bytes, available_bytes);
  }
  return available_bytes;
}

// Before there is a meter: near enough for what hangs on its order of magnitude.
int64_t likely_budget_bytes(const DeviceOptions& options) {
  if (options.settled) return options.settled->bytes;
  return bytes_of(options.budget.on_cpu(),
                  tightest(memory_bounds(ResourceLimits::of_this_process())).available_bytes());
}

[[noreturn]] void fail_too_little(const MemoryBound& bound, int64_t needed, const std::string& what_for,
                                  const std::string& hint) {
  throw Error(ExitCode::kDoesNotFit, bound.name,
              cat("leaves ", format_bytes(bound.available_bytes()), ", less than the ", format_bytes(needed),
                  " ", what_for),
              hint);
}

class CpuDevice final : public Device {
 public:
  CpuDevice(std::unique_ptr<CpuMeter> meter, ResolvedBudget budget, int64_t ranks_here)
      : Device(std::move(budget)),
        meter_(std::move(meter)),
        ranks_here_(std::max<int64_t>(1, ranks_here)),
        name_(read_cpu_name()) {}

  c10::Device torch_device() const override { return c10::Device(c10::DeviceType::CPU); }
  std::string name() const override { return name_; }
  std::string software() const override { return cat("LibTorch ", TORCH_VERSION); }
  bool has_native_bf16() const override { return cpu_has("avx512_bf16") || cpu_has("amx_bf16"); }
  void synchronize() const override {}
  Batch upload(const Batch& batch) override {
    std::vector<int64_t> shape = batch.inputs.sizes().vec();
    for (const torch::Tensor& input : batch.more_inputs)
      shape.insert(shape.end(), input.sizes().begin(), input.sizes().end());
    shapes_.insert(std::move(shape));
    return batch;
  }
  int64_t shapes_met() const override { return std::ssize(shapes_); }
  MemoryMeter& memory() override { return *meter_; }
  int64_t used_by_others_bytes() const override { return memory_of_other_processes_bytes(); }
  int64_t obtainable_bytes() const override {
    const MemoryBound bound = tightest(meter_->bounds());
    const int64_t more = (bound.available_bytes() - reserve_below(bound)) / ranks_here_;
    return meter_->reserved_bytes() + std::max<int64_t>(0, more);
  }

 private:
  std::unique_ptr<CpuMeter> meter_;
  const int64_t ranks_here_;
  std::set<std::vector<int64_t>> shapes_;
  std::string name_;
};

}  // namespace

ResolvedBudget resolve_budget(const Budget& budget, int64_t available_bytes,
                              const std::string& available_name) {
  const int64_t bytes = bytes_of(budget, available_bytes);
  switch (budget.kind) {
    case Budget::Kind::kAuto: return {bytes, "all of " + available_name};
    case Budget::Kind::kShare: return {bytes, format_percent(budget.share, 0) + " of " + available_name};
    case Budget::Kind::kBytes: break;
  }
  if (bytes == budget.bytes) return {bytes, "asked"};
  log::warn("device",
            cat("the budget of ", format_bytes(budget.bytes), " is more than the ",
                format_bytes(available_bytes), " that ", available_name, " leaves; the smaller one holds"));
  return {bytes, "all of " + available_name + ", less than asked"};
}

void require_room_for_threads(int64_t threads) {
  // The calling thread, one for backward passes, and in each of LibTorch's two pools all but the calling one.
  const int64_t wanted = 2 * threads;
  const int64_t missing = std::max<int64_t>(0, wanted - read_kernel_table("/proc/self/status")["Threads"]);
  if (missing == 0) return;
  pthread_attr_t attributes;
  size_t stack_bytes = 0;
  if (::pthread_getattr_default_np(&attributes) == 0) {
    ::pthread_attr_getstacksize(&attributes, &stack_bytes);
    ::pthread_attr_destroy(&attributes);
  }
  for (const MemoryBound& bound : memory_bounds(ResourceLimits::of_this_process())) {
    const int64_t needed = reserve_below(bound) + missing * static_cast<int64_t>(stack_bytes);
    if (!refuses(bound) || bound.available_bytes() >= needed) continue;
    fail_too_little(bound, needed, cat("that ", missing, " threads and a reserve need"),
                    "raise that limit, or lower execution.threads");
  }
}

std::unique_ptr<Device> open_cpu_device(const DeviceOptions& options) {
  keep_heap_small();
  bound_kernel_caches(likely_budget_bytes(options));
  warm_up_cpu();
  auto meter = std::make_unique<CpuMeter>();
  if (options.settled)
    return std::make_unique<CpuDevice>(std::move(meter), *options.settled, options.ranks_here);

  const MemoryBound bound = tightest(meter->bounds());
  const int64_t available =
      (bound.available_bytes() - reserve_below(bound)) / std::max<int64_t>(1, options.ranks_here);
  if (available <= 0) {
    fail_too_little(bound, reserve_below(bound), "kept in reserve below a real limit",
                    "raise that limit or end other programs");
  }
  auto budget = resolve_budget(options.budget.on_cpu(), available, bound.name);
  return std::make_unique<CpuDevice>(std::move(meter), std::move(budget), options.ranks_here);
}

}  // namespace autotrain
