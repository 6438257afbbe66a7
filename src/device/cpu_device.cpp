#include "device/cpu_device.h"

#include <ATen/Context.h>
#include <ATen/cpu/Utils.h>
#include <malloc.h>
#include <sched.h>
#include <torch/version.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/text.h"
#include "base/units.h"
#include "device/cpu_meter.h"
#include "device/system_memory.h"
#include "device/warm_up.h"

namespace autotrain {
namespace {

std::string read_cpu_name() {
  std::ifstream in("/proc/cpuinfo");
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

// The cgroup's CPU quota in whole cores, at least 1; 0 when there is none.
int64_t quota_cores() {
  std::ifstream version2("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0, allowed = 0;
  if (version2 >> quota >> period) {
    return parse_real(quota, allowed) ? std::max<int64_t>(1, static_cast<int64_t>(allowed / period)) : 0;
  }
  std::ifstream quota_file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
  std::ifstream period_file("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  if (!(quota_file >> allowed && period_file >> period) || allowed <= 0) return 0;
  return std::max<int64_t>(1, static_cast<int64_t>(allowed / period));
}

// Tensors no longer come from the C library's heap, but the scratch memory of libraries does. By default
// glibc raises its threshold for separate mappings each time one is freed, and then keeps up to 64 MiB: each
// trial of a search made the next one look some 20 MiB larger. Setting the threshold stops that. It also
// takes 64 MiB of addresses for every thread that allocates, which counts where addresses are limited.
void keep_heap_small() {
  constexpr int kSeparateFrom = 128 << 10;  // glibc's own first value
  ::mallopt(M_MMAP_THRESHOLD, kSeparateFrom);
  if (ResourceLimits::of_this_process().address_space >= 0) ::mallopt(M_ARENA_MAX, 1);
}

// Addresses that the allocator holds without memory are its own to use. A fifth is left for the holes between
// tensors: elsewhere they are filled by committing other addresses, but here there are no others.
std::vector<MemoryBound> bounds_of_this_process() {
  std::vector<MemoryBound> bounds = memory_bounds(ResourceLimits::of_this_process());
  for (MemoryBound& bound : bounds) {
    if (bound.name != kAddressSpaceBound) continue;
    bound.used_bytes -= CachingAllocator::process_wide().idle_address_bytes();
    bound.used_bytes += bound.available_bytes() / 5;
  }
  return bounds;
}

class CpuDevice final : public Device {
 public:
  CpuDevice(std::unique_ptr<CpuMeter> meter, ResolvedBudget budget)
      : meter_(std::move(meter)), budget_(std::move(budget)), name_(read_cpu_name()) {}

  c10::Device torch_device() const override { return c10::Device(c10::DeviceType::CPU); }
  std::string name() const override { return name_; }
  std::string software() const override { return cat("LibTorch ", TORCH_VERSION); }
  bool has_native_bf16() const override { return cpu_has("avx512_bf16") || cpu_has("amx_bf16"); }
  void synchronize() const override {}
  Batch upload(const Batch& batch) override { return batch; }
  MemoryMeter& memory() override { return *meter_; }
  int64_t budget_bytes() const override { return budget_.bytes; }
  const std::string& budget_source() const override { return budget_.source; }
  int64_t used_by_others_bytes() const override { return memory_of_other_processes_bytes(); }

 private:
  std::unique_ptr<CpuMeter> meter_;
  ResolvedBudget budget_;
  std::string name_;
};

}  // namespace

int64_t usable_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return 1;
  std::set<std::string> cores;  // hyper-threads of one core list the same siblings
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(static_cast<size_t>(cpu), &allowed)) continue;
    std::ifstream in(cat("/sys/devices/system/cpu/cpu", cpu, "/topology/thread_siblings_list"));
    std::string siblings;
    cores.insert(in >> siblings ? siblings : std::to_string(cpu));
  }
  const auto count = std::max<int64_t>(1, static_cast<int64_t>(cores.size()));
  const int64_t quota = quota_cores();
  return quota > 0 ? std::min(quota, count) : count;
}

ResolvedBudget resolve_budget(const Budget& budget, int64_t available_bytes,
                              const std::string& available_name) {
  switch (budget.kind) {
    case Budget::Kind::kAuto: return {available_bytes, "all of " + available_name};
    case Budget::Kind::kShare: {
      const double bytes = budget.share * static_cast<double>(available_bytes);
      return {static_cast<int64_t>(bytes), format_percent(budget.share, 0) + " of " + available_name};
    }
    case Budget::Kind::kBytes: break;
  }
  if (budget.bytes <= available_bytes) return {budget.bytes, "asked"};
  log::warn("device",
            cat("the budget of ", format_bytes(budget.bytes), " is more than the ",
                format_bytes(available_bytes), " that ", available_name, " leaves; the smaller one holds"));
  return {available_bytes, "all of " + available_name + ", less than asked"};
}

std::unique_ptr<Device> open_cpu_device(const DeviceOptions& options) {
  keep_heap_small();
  warm_up_cpu();
  auto meter = std::make_unique<CpuMeter>();

  const MemoryBound bound = tightest(bounds_of_this_process());
  const int64_t available =
      (bound.available_bytes() - reserve_below(bound)) / std::max<int64_t>(1, options.ranks_here);
  if (available <= 0) {
    throw Error(ExitCode::kDoesNotFit, bound.name,
                cat("leaves ", format_bytes(bound.available_bytes()), ", less than the ",
                    format_bytes(reserve_below(bound)), " kept in reserve below a real limit"),
                "raise that limit or end other programs");
  }
  auto budget = resolve_budget(options.budget, available, bound.name);
  return std::make_unique<CpuDevice>(std::move(meter), std::move(budget));
}

}  // namespace autotrain
