#pragma once

#include <mutex>

#include "autotrain/memory.h"
#include "device/caching_allocator.h"
#include "device/system_memory.h"

namespace autotrain {

/// The meter of the CPU. While one lives, LibTorch's CPU allocator is the process-wide
/// CachingAllocator; runs that overlap in one process share it, and the last limit set holds.
class CpuMeter final : public MemoryMeter {
 public:
  CpuMeter();
  ~CpuMeter() override;
  CpuMeter(const CpuMeter&) = delete;
  CpuMeter& operator=(const CpuMeter&) = delete;

  int64_t allocated_bytes() const override;
  int64_t reserved_bytes() const override;
  int64_t sample_outside_bytes() override;
  MemoryPeak peak() const override;
  void reset_peak() override;
  void set_limit(int64_t bytes) override;
  void remove_limit() override;
  void empty_cache() override;
  std::optional<Refusal> last_refusal() const override;

 private:
  int64_t outside_now() const;
  void apply_limit();
  void watch_resource_limits();
  void give_up_addresses();

  CachingAllocator& allocator_;
  const ResourceLimits limits_ = ResourceLimits::of_this_process();
  int64_t allocated_before_ = 0;
  int64_t reserved_before_ = 0;
  int64_t outside_before_ = 0;
  mutable std::mutex mutex_;
  int64_t outside_bytes_ = 0;
  int64_t peak_outside_bytes_ = 0;
  int64_t limit_bytes_ = -1;
};

}  // namespace autotrain
