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
}

CpuMeter::~CpuMeter() {
  remove_limit();
  uninstall();
  allocator_.empty_cache();
}

int64_t CpuMeter::allocated_bytes() const {
  return allocator_.allocated_bytes() - allocated_before_;
}

int64_t CpuMeter::reserved_bytes() const {
  return allocator_.reserved_bytes() - reserved_before_;
}

// What the process has beside the allocator. Committed memory is touched when committed, so resident
// compares with resident.
ProcessMemory CpuMeter::outside_now() const {
  const ProcessMemory all = ProcessMemory::now();
  const int64_t reserved = allocator_.reserved_bytes();
  return {all.anonymous_bytes - reserved, all.data_bytes - reserved,
          all.address_bytes - reserved - allocator_.idle_address_bytes()};
}

int64_t CpuMeter::sample_outside_bytes() {
  const ProcessMemory now = outside_now();
  int64_t growth = now.anonymous_bytes - outside_before_.anonymous_bytes;
  // Where the kernel limits mappings, these are used up whether they are touched or not.
  if (limits_.data >= 0) growth = std::max(growth, now.data_bytes - outside_before_.data_bytes);
  if (limits_.address_space >= 0)
    growth = std::max(growth, now.address_bytes - outside_before_.address_bytes);
  std::lock_guard lock(mutex_);
  outside_bytes_ = std::max<int64_t>(0, growth);
  peak_outside_bytes_ = std::max(peak_outside_bytes_, outside_bytes_);
  if (limit_bytes_ >= 0) apply_limit();
  return outside_bytes_;
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
  const int64_t limit = reserved_before_ + std::max<int64_t>(0, limit_bytes_ - outside_bytes_);
  allocator_.set_limit(limit);
  if (limits_.address_space >= 0) allocator_.keep_addresses(limit);
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
