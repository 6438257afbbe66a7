#include "device/allocator_switch.h"

#include <ATen/Parallel.h>
#include <c10/core/CPUAllocator.h>
#include <malloc.h>

#include <algorithm>

#include "base/run_thread.h"
#include "device/caching_allocator.h"

namespace autotrain {

AllocatorSwitch& AllocatorSwitch::process_wide() {
  static auto* const allocator = new AllocatorSwitch;
  return *allocator;
}

void AllocatorSwitch::install() {
  if (before_ != nullptr) return;
  before_ = c10::GetCPUAllocator();
  c10::SetCPUAllocator(this);
}

// What helps a run within one operation may be any thread.
bool AllocatorSwitch::serves_caller() const {
  return in_use_ && (works_for_run() || !run_lives() || at::in_parallel_region());
}

c10::DataPtr AllocatorSwitch::allocate(size_t bytes) {
  return serves_caller() ? CachingAllocator::process_wide().allocate(bytes) : allocate_for_program(bytes);
}

c10::DataPtr AllocatorSwitch::allocate_for_program(size_t bytes) {
  if (before_ != c10::GetDefaultCPUAllocator()) return before_->allocate(bytes);  // not counted
  if (bytes == 0) return {nullptr, nullptr, &free_of_program, c10::Device(c10::DeviceType::CPU)};
  void* const data = before_->raw_allocate(bytes);
  program_bytes_ += static_cast<int64_t>(::malloc_usable_size(data));
  return {data, data, &free_of_program, c10::Device(c10::DeviceType::CPU)};
}

void AllocatorSwitch::free_of_program(void* data) noexcept {
  if (data == nullptr) return;
  AllocatorSwitch& here = process_wide();
  here.program_bytes_ -= static_cast<int64_t>(::malloc_usable_size(data));
  here.before_->raw_deallocate(data);
}

// Of memory that was allocated raw, nobody knows by which of the two.
void AllocatorSwitch::free_any(void* data) noexcept {
  const CachingAllocator& runs = CachingAllocator::process_wide();
  AllocatorSwitch& here = process_wide();
  if (data == nullptr || runs.holds(data)) return runs.raw_deleter()(data);
  if (here.before_ == c10::GetDefaultCPUAllocator()) return free_of_program(data);
  here.before_->raw_deallocate(data);
}

// What was allocated before the installation is given back uncounted at most once.
int64_t AllocatorSwitch::program_bytes() const {
  return std::max<int64_t>(0, program_bytes_);
}

c10::DeleterFnPtr AllocatorSwitch::raw_deleter() const {
  return &free_any;
}

void AllocatorSwitch::copy_data(void* destination, const void* source, size_t bytes) const {
  default_copy_data(destination, source, bytes);
}

}  // namespace autotrain
