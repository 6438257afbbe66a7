#include "device/cuda_memory.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "device/gpu_processes.h"
#include "device/memory_phase.h"

namespace autotrain {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;
constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);

struct DeviceMemory {
  int64_t free_bytes = 0;
  int64_t total_bytes = 0;
};

DeviceMemory device_memory(c10::DeviceIndex index) {
  const c10::cuda::CUDAGuard guard(index);
  size_t free = 0, total = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return {static_cast<int64_t>(free), static_cast<int64_t>(total)};
}

// The largest live blocks of the device's allocator, without the phase, which it does not record.
std::vector<LiveBlock> largest_blocks(c10::DeviceIndex index) {
  constexpr size_t kRows = 8;
  std::map<int64_t, int64_t> counts;
  for (const auto& segment : allocator::snapshot().segments) {
    if (segment.device != index) continue;
    for (const auto& block : segment.blocks) {
      if (block.allocated) ++counts[static_cast<int64_t>(block.size)];
    }
  }
  std::vector<LiveBlock> rows;
  for (auto it = counts.rbegin(); it != counts.rend() && rows.size() < kRows; ++it) {
    rows.push_back({it->first, it->second, "unknown phase"});
  }
  return rows;
}

// Keeps what the allocator last refused on each device. An observer notes it while everything that was in use
// still is. The allocator keeps observers for ever, so there is one for the process.
class RefusalNotes {
 public:
  static RefusalNotes& of_process() {
    static RefusalNotes notes;
    return notes;
  }

  void forget(c10::DeviceIndex index) {
    std::lock_guard lock(mutex_);
    last_.erase(index);
  }

  std::optional<GpuRefusal> last(c10::DeviceIndex index) const {
    std::lock_guard lock(mutex_);
    const auto found = last_.find(index);
    return found == last_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  RefusalNotes() {
    allocator::attachOutOfMemoryObserver(
        [this](int64_t device, size_t requested, size_t, size_t free) { note(device, requested, free); });
  }

  void note(int64_t device, size_t requested, size_t free) {
    const auto index = static_cast<c10::DeviceIndex>(device);
    const auto stats = allocator::getDeviceStats(index);
    GpuRefusal refusal;
    refusal.what.requested_bytes = static_cast<int64_t>(requested);
    refusal.what.allocated_bytes = stats.allocated_bytes[kAll].current;
    refusal.what.reserved_bytes = stats.reserved_bytes[kAll].current;
    refusal.what.phase = to_string(PhaseScope::current());
    refusal.what.largest = largest_blocks(index);
    refusal.free_bytes = static_cast<int64_t>(free);
    std::lock_guard lock(mutex_);
    last_.insert_or_assign(index, std::move(refusal));
  }

  mutable std::mutex mutex_;
  std::map<c10::DeviceIndex, GpuRefusal> last_;
};

class CudaMemory final : public GpuMemory {
 public:
  CudaMemory(c10::DeviceIndex index, const std::string& bus_id)
      : index_(index), total_bytes_(device_memory(index).total_bytes), processes_(gpu_processes(bus_id)) {
    RefusalNotes::of_process().forget(index_);
  }

  int64_t total_bytes() const override { return total_bytes_; }
  int64_t free_bytes() const override { return device_memory(index_).free_bytes; }
  std::optional<int64_t> own_bytes() const override {
    return processes_ ? processes_->own_bytes() : std::nullopt;
  }

  GpuAllocator allocator() const override {
    const auto stats = allocator::getDeviceStats(index_);
    return {.allocated_bytes = stats.allocated_bytes[kAll].current,
            .reserved_bytes = stats.reserved_bytes[kAll].current,
            .peak_allocated_bytes = stats.allocated_bytes[kAll].peak,
            .peak_reserved_bytes = stats.reserved_bytes[kAll].peak,
            .retries = stats.num_alloc_retries};
  }

  void reset_peaks() override { allocator::resetPeakStats(index_); }

  // The allocator cuts the product off to whole bytes; half of one keeps it from losing one by rounding.
  void limit_reserved(int64_t bytes) override {
    const double fraction = (static_cast<double>(bytes) + 0.5) / static_cast<double>(total_bytes_);
    allocator::setMemoryFraction(std::clamp(fraction, 0.0, 1.0), index_);
  }

  void empty_cache() override { allocator::emptyCache(); }
  std::optional<GpuRefusal> last_refusal() const override { return RefusalNotes::of_process().last(index_); }
  void forget_refusal() override { RefusalNotes::of_process().forget(index_); }

 private:
  const c10::DeviceIndex index_;
  const int64_t total_bytes_;
  const std::unique_ptr<GpuProcesses> processes_;
};

}  // namespace

std::unique_ptr<GpuMemory> cuda_memory(c10::DeviceIndex index, const std::string& bus_id) {
  return std::make_unique<CudaMemory>(index, bus_id);
}

}  // namespace autotrain
