#include "device/cpu_meter.h"

#include <malloc.h>

#include <algorithm>
#include <limits>

#include "device/allocator_switch.h"
#include "device/kernel_caches.h"
#include "device/system_memory.h"

namespace autotrain {
namespace {

// Who uses the caching allocator now, the one whose limit holds last.
struct Installation {
  std::mutex mutex;
  std::vector<CpuMeter*> meters;
};

Installation& installation() {
  static auto* const shared = new Installation;
  return *shared;
}

}  // namespace

CpuMeter::CpuMeter() : allocator_(CachingAllocator::process_wide()) {
  {
    Installation& shared = installation();
    std::lock_guard lock(shared.mutex);
    AllocatorSwitch::process_wide().install();
    AllocatorSwitch::process_wide().set_in_use(true);
    shared.meters.push_back(this);
  }
  allocator_.empty_cache();
  allocator_.start_counting();
  const CachingAllocator::Counts counts = allocator_.counts();
  allocated_before_ = counts.allocated_bytes;
  reserved_before_ = counts.reserved_bytes;
  resident_before_ = beside_allocator(&ProcessMemory::anonymous_bytes, ProcessMemory::now());
  watch_mapping_limits();
}

CpuMeter::~CpuMeter() {
  {
    Installation& shared = installation();
    std::lock_guard lock(shared.mutex);
    std::erase(shared.meters, this);
    if (shared.meters.empty()) {
      remove_limit();
      allocator_.set_headroom({});
      AllocatorSwitch::process_wide().set_in_use(false);
    } else {
      CpuMeter& other = *shared.meters.back();
      std::lock_guard others(other.mutex_);
      other.put_in_force();
    }
  }
  allocator_.empty_cache();
}

void CpuMeter::put_in_force() {
  limit_bytes_ >= 0 ? apply_limit() : allocator_.set_limit(std::numeric_limits<int64_t>::max());
}

int64_t CpuMeter::allocated_bytes() const {
  return allocator_.counts().allocated_bytes - allocated_before_;
}

int64_t CpuMeter::reserved_bytes() const {
  return allocator_.counts().reserved_bytes - reserved_before_;
}

// Where addresses are limited, the allocator has reserved nearly all of them. A fifth is left for the holes
// between tensors: elsewhere they are filled by committing other addresses, but here there are no others.
std::vector<MemoryBound> CpuMeter::bounds() const {
  std::vector<MemoryBound> bounds = memory_bounds(ResourceLimits::of_this_process());
  for (MemoryBound& bound : bounds) {
    if (bound.name != kAddressSpaceBound) continue;
    bound.used_bytes -= allocator_.counts().idle_address_bytes;
    bound.used_bytes += bound.available_bytes() / 5;
  }
  return bounds;
}

// Committed memory is touched when it is committed, so it is resident, and counts as mapped data. Its
// addresses were mapped long before.
int64_t CpuMeter::beside_allocator(int64_t ProcessMemory::*mapped, const ProcessMemory& now) const {
  const CachingAllocator::Counts counts = allocator_.counts();
  const int64_t program = AllocatorSwitch::process_wide().program_bytes();
  const bool addresses = mapped == &ProcessMemory::address_bytes;
  return now.*mapped - counts.reserved_bytes - program - (addresses ? counts.idle_address_bytes : 0);
}

// Libraries map memory that cannot be refused to them, so tensors stop short of these limits by a reserve.
void CpuMeter::watch_mapping_limits() {
  const ProcessMemory now = ProcessMemory::now();
  for (const MemoryBound& bound : bounds()) {
    if (!refuses(bound)) continue;
    const bool data = bound.name == kDataBound;
    const auto mapped = data ? &ProcessMemory::data_bytes : &ProcessMemory::address_bytes;
    const int64_t reserve = reserve_below(bound);
    mapping_limits_.push_back({.mapped = mapped,
                               .limit_bytes = bound.limit_bytes,
                               .reserve_bytes = reserve,
                               .granted_bytes = std::max<int64_t>(0, bound.available_bytes() - reserve),
                               .before_bytes = beside_allocator(mapped, now)});
    if (!data) continue;
    const int64_t most = bound.limit_bytes - reserve;
    allocator_.set_headroom([most] { return most - ProcessMemory::now().data_bytes; });
  }
}

// Growth of the process beside the allocator, in the terms of whatever refuses first: resident memory, which
// is what a budget is about; or what a resource limit counts, as far as that limit grants no more than the
// budget.
int64_t CpuMeter::outside_growth() const {
  const ProcessMemory now = ProcessMemory::now();
  int64_t growth = beside_allocator(&ProcessMemory::anonymous_bytes, now) - resident_before_;
  for (const MappingLimit& limit : mapping_limits_) {
    if (limit_bytes_ < 0) break;
    const int64_t mapped = beside_allocator(limit.mapped, now) - limit.before_bytes;
    growth = std::max(growth, mapped - std::max<int64_t>(0, limit.granted_bytes - limit_bytes_));
  }
  return std::max<int64_t>(0, growth);
}

int64_t CpuMeter::sample_outside_bytes() {
  std::lock_guard lock(mutex_);
  outside_bytes_ = outside_growth();
  peak_outside_bytes_ = std::max(peak_outside_bytes_, outside_bytes_);
  if (limit_bytes_ >= 0) apply_limit();
  give_up_addresses();
  return outside_bytes_;
}

// Where addresses are limited, libraries need those that this allocator holds and has no memory for.
void CpuMeter::give_up_addresses() {
  for (const MappingLimit& limit : mapping_limits_) {
    if (limit.mapped != &ProcessMemory::address_bytes) continue;
    const int64_t missing = ProcessMemory::now().address_bytes + limit.reserve_bytes / 2 - limit.limit_bytes;
    if (missing > 0) allocator_.give_up_addresses(missing);
  }
}

MemoryPeak CpuMeter::peak() const {
  std::lock_guard lock(mutex_);
  const CachingAllocator::Counts counts = allocator_.counts();
  return {.allocated_bytes = counts.peak_allocated_bytes - allocated_before_,
          .reserved_bytes = counts.peak_reserved_bytes - reserved_before_,
          .outside_bytes = peak_outside_bytes_};
}

void CpuMeter::reset_peak() {
  std::lock_guard lock(mutex_);
  allocator_.start_counting();
  peak_outside_bytes_ = outside_bytes_;
}

void CpuMeter::set_limit(int64_t bytes) {
  Installation& shared = installation();
  std::lock_guard lock(shared.mutex);
  std::erase(shared.meters, this);
  shared.meters.push_back(this);
  std::lock_guard own(mutex_);
  limit_bytes_ = bytes;
  put_in_force();
}

void CpuMeter::apply_limit() {
  allocator_.set_limit(reserved_before_ + std::max<int64_t>(0, limit_bytes_ - outside_bytes_));
}

void CpuMeter::remove_limit() {
  std::lock_guard lock(mutex_);
  limit_bytes_ = -1;
  put_in_force();
}

void CpuMeter::empty_cache() {
  give_back_free_memory();
  if (!kernels_have_grown()) return;
  release_kernels();
  give_back_free_memory();
  std::lock_guard lock(mutex_);
  outside_after_release_ = outside_growth();
}

void CpuMeter::give_back_free_memory() {
  allocator_.empty_cache();
  ::malloc_trim(0);
}

// Kernels that are needed again must be compiled again, so they are given back only when they came to
// something.
bool CpuMeter::kernels_have_grown() const {
  constexpr int64_t kShareOfLimit = 32;
  std::lock_guard lock(mutex_);
  return limit_bytes_ >= 0 && outside_growth() - outside_after_release_ >= limit_bytes_ / kShareOfLimit;
}

std::optional<Refusal> CpuMeter::last_refusal() const {
  std::optional<Refusal> refusal = allocator_.last_refusal();
  if (!refusal) return std::nullopt;
  std::lock_guard lock(mutex_);
  refusal->allocated_bytes -= allocated_before_;
  refusal->reserved_bytes -= reserved_before_;
  refusal->limit_bytes = limit_bytes_;
  refusal->outside_bytes = outside_bytes_;
  return refusal;
}

}  // namespace autotrain
