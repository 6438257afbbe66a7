#include "device/cuda_meter.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <map>

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

// Keeps what the allocator last refused. An observer notes it while everything that was in use still is. The
// allocator keeps observers for ever, so there is one for the process.
class RefusalNote {
 public:
  static RefusalNote& of_process() {
    static RefusalNote note;
    return note;
  }

  void forget() {
    std::lock_guard lock(mutex_);
    last_.reset();
  }

  std::optional<Refusal> last() const {
    std::lock_guard lock(mutex_);
    return last_;
  }

 private:
  RefusalNote() {
    allocator::attachOutOfMemoryObserver(
        [this](int64_t device, size_t requested, size_t, size_t) { note(device, requested); });
  }

  void note(int64_t device, size_t requested) {
    const auto index = static_cast<c10::DeviceIndex>(device);
    const auto stats = allocator::getDeviceStats(index);
    Refusal refusal;
    refusal.requested_bytes = static_cast<int64_t>(requested);
    refusal.allocated_bytes = stats.allocated_bytes[kAll].current;
    refusal.reserved_bytes = stats.reserved_bytes[kAll].current;
    refusal.phase = to_string(PhaseScope::current());
    refusal.largest = largest_blocks(index);
    std::lock_guard lock(mutex_);
    last_ = std::move(refusal);
  }

  mutable std::mutex mutex_;
  std::optional<Refusal> last_;
};

}  // namespace

CudaMeter::CudaMeter(c10::DeviceIndex index) : index_(index) {
  allocator::emptyCache();
  allocator::resetPeakStats(index_);
  total_bytes_ = device_memory(index_).total_bytes;
  const auto stats = allocator::getDeviceStats(index_);
  allocated_before_ = stats.allocated_bytes[kAll].current;
  reserved_before_ = stats.reserved_bytes[kAll].current;
  outside_before_ = used_outside_now();
  retries_before_ = stats.num_alloc_retries;
  RefusalNote::of_process().forget();
}

CudaMeter::~CudaMeter() {
  try {
    remove_limit();
  } catch (const std::exception&) {
    // A broken CUDA context cannot be repaired here, and the process is about to end.
  }
}

int64_t CudaMeter::used_outside_now() const {
  const DeviceMemory memory = device_memory(index_);
  const auto stats = allocator::getDeviceStats(index_);
  return memory.total_bytes - memory.free_bytes - stats.reserved_bytes[kAll].current;
}

int64_t CudaMeter::free_bytes() const {
  return device_memory(index_).free_bytes;
}

int64_t CudaMeter::allocated_bytes() const {
  return allocator::getDeviceStats(index_).allocated_bytes[kAll].current - allocated_before_;
}

int64_t CudaMeter::reserved_bytes() const {
  return allocator::getDeviceStats(index_).reserved_bytes[kAll].current - reserved_before_;
}

int64_t CudaMeter::sample_outside_bytes() {
  const int64_t outside = used_outside_now() - outside_before_;
  std::lock_guard lock(mutex_);
  outside_bytes_ = std::max<int64_t>(0, outside);
  peak_outside_bytes_ = std::max(peak_outside_bytes_, outside_bytes_);
  if (limit_bytes_ >= 0) apply_limit();
  return outside_bytes_;
}

MemoryPeak CudaMeter::peak() const {
  const auto stats = allocator::getDeviceStats(index_);
  std::lock_guard lock(mutex_);
  return {.allocated_bytes = stats.allocated_bytes[kAll].peak - allocated_before_,
          .reserved_bytes = stats.reserved_bytes[kAll].peak - reserved_before_,
          .outside_bytes = peak_outside_bytes_,
          .retries = stats.num_alloc_retries - retries_before_};
}

void CudaMeter::reset_peak() {
  std::lock_guard lock(mutex_);
  allocator::resetPeakStats(index_);
  const auto stats = allocator::getDeviceStats(index_);
  retries_before_ = stats.num_alloc_retries;
  RefusalNote::of_process().forget();
  peak_outside_bytes_ = outside_bytes_;
}

void CudaMeter::set_limit(int64_t bytes) {
  std::lock_guard lock(mutex_);
  limit_bytes_ = bytes;
  apply_limit();
}

void CudaMeter::apply_limit() {
  const int64_t reserved = reserved_before_ + std::max<int64_t>(0, limit_bytes_ - outside_bytes_);
  const double fraction = static_cast<double>(reserved) / static_cast<double>(total_bytes_);
  allocator::setMemoryFraction(std::clamp(fraction, 0.0, 1.0), index_);
}

void CudaMeter::remove_limit() {
  std::lock_guard lock(mutex_);
  limit_bytes_ = -1;
  allocator::setMemoryFraction(1.0, index_);
}

void CudaMeter::empty_cache() {
  allocator::emptyCache();
}

std::optional<Refusal> CudaMeter::last_refusal() const {
  std::optional<Refusal> refusal = RefusalNote::of_process().last();
  if (!refusal) return std::nullopt;
  std::lock_guard lock(mutex_);
  refusal->allocated_bytes -= allocated_before_;
  refusal->reserved_bytes -= reserved_before_;
  refusal->outside_bytes = outside_bytes_;
  refusal->limit_bytes = limit_bytes_;
  return refusal;
}

}  // namespace autotrain
