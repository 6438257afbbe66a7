#include "device/cpu_meter.h"

#include <malloc.h>

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <limits>

#include "device/system_memory.h"

namespace autotrain {
namespace {

// Who uses the caching allocator now, and what was there before the first of them.
struct Installation {
  std::mutex mutex;
  int users = 0;
  c10::Allocator* before = nullptr;
};

Installation& installation() {
  static auto* const shared = new Installation;
  return *shared;
}

void install(CachingAllocator& allocator) {
  Installation& shared = installation();
  std::lock_guard lock(shared.mutex);
  if (shared.users++ > 0) return;
  shared.before = c10::GetCPUAllocator();
  c10::SetCPUAllocator(&allocator);
}

void uninstall() {
  Installation& shared = installation();
  std::lock_guard lock(shared.mutex);
  if (--shared.users == 0) c10::SetCPUAllocator(shared.before);
}

}  // namespace

CpuMeter::CpuMeter() : allocator_(CachingAllocator::process_wide()) {
  install(allocator_);
  allocator_.empty_cache();
  allocator_.reset_peaks();
  allocator_.clear_refusal();
  allocated_before_ = allocator_.allocated_bytes();
  reserved_before_ = allocator_.reserved_bytes();
  outside_before_ = outside_now();
  watch_resource_limits();
}

CpuMeter::~CpuMeter() {
  remove_limit();
  allocator_.set_headroom({});
  uninstall();
  allocator_.empty_cache();
}

int64_t CpuMeter::allocated_bytes() const {
  return allocator_.allocated_bytes() - allocated_before_;
}

int64_t CpuMeter::reserved_bytes() const {
  return allocator_.reserved_bytes() - reserved_before_;
}

// Resident memory beside the allocator's. Committed memory is touched when committed, so resident compares
// with resident.
int64_t CpuMeter::outside_now() const {
  return ProcessMemory::now().anonymous_bytes - allocator_.reserved_bytes();
}

int64_t CpuMeter::sample_outside_bytes() {
  const int64_t outside = outside_now() - outside_before_;
  std::lock_guard lock(mutex_);
  outside_bytes_ = std::max<int64_t>(0, outside);
  peak_outside_bytes_ = std::max(peak_outside_bytes_, outside_bytes_);
  if (limit_bytes_ >= 0) apply_limit();
  give_up_addresses();
  return outside_bytes_;
}

// Resource limits count mappings, touched or not, and what libraries map cannot be refused: so tensors stop
// short of the limit.
void CpuMeter::watch_resource_limits() {
  if (limits_.data < 0) return;
  const int64_t most = limits_.data - reserve_below({kDataBound, limits_.data, 0});
  allocator_.set_headroom([most] { return most - ProcessMemory::now().data_bytes; });
}

// Where addresses are limited, libraries need those that this allocator holds and has no memory for.
void CpuMeter::give_up_addresses() {
  if (limits_.address_space < 0) return;
  const int64_t kept_free = reserve_below({kAddressSpaceBound, limits_.address_space, 0}) / 2;
  const int64_t missing = ProcessMemory::now().address_bytes + kept_free - limits_.address_space;
  if (missing > 0) allocator_.give_up_addresses(missing);
}

MemoryPeak CpuMeter::peak() const {
  std::lock_guard lock(mutex_);
  return {.allocated_bytes = allocator_.peak_allocated_bytes() - allocated_before_,
          .reserved_bytes = allocator_.peak_reserved_bytes() - reserved_before_,
          .outside_bytes = peak_outside_bytes_};
}

void CpuMeter::reset_peak() {
  std::lock_guard lock(mutex_);
  allocator_.reset_peaks();
  allocator_.clear_refusal();
  peak_outside_bytes_ = outside_bytes_;
}

void CpuMeter::set_limit(int64_t bytes) {
  std::lock_guard lock(mutex_);
  limit_bytes_ = bytes;
  apply_limit();
}

void CpuMeter::apply_limit() {
  allocator_.set_limit(reserved_before_ + std::max<int64_t>(0, limit_bytes_ - outside_bytes_));
}

void CpuMeter::remove_limit() {
  std::lock_guard lock(mutex_);
  limit_bytes_ = -1;
  allocator_.set_limit(std::numeric_limits<int64_t>::max());
}

void CpuMeter::empty_cache() {
  allocator_.empty_cache();
  ::malloc_trim(0);
}

std::optional<Refusal> CpuMeter::last_refusal() const {
  return allocator_.last_refusal();
}

}  // namespace autotrain
