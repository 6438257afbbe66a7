#pragma once

#include <mutex>
#include <vector>

#include "autotrain/memory.h"
#include "device/caching_allocator.h"
#include "device/system_memory.h"

namespace autotrain {

/// The meter of the CPU. From the first one on, LibTorch's allocator is the process-wide `AllocatorSwitch`;
/// while one lives, runs get the memory of the process-wide `CachingAllocator`. Those that live in one
/// process share it, and the last limit set by one that lives holds. What the program takes beside its runs
/// (`base/run_thread.h`) is not counted.
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

  /// What bounds this process now. Addresses that the allocator holds for tensors are free to be used.
  std::vector<MemoryBound> bounds() const;

 private:
  // A resource limit counts mappings, touched or not: what of them the run may have, and what the process had
  // beside the allocator before.
  struct MappingLimit {
    int64_t ProcessMemory::*mapped = nullptr;
    int64_t limit_bytes = 0;
    int64_t reserve_bytes = 0;
    int64_t granted_bytes = 0;
    int64_t before_bytes = 0;
  };

  int64_t beside_allocator(int64_t ProcessMemory::*mapped, const ProcessMemory& now) const;
  int64_t outside_growth() const;
  void watch_mapping_limits();
  void apply_limit();
  void put_in_force();
  void give_up_addresses();
  void give_back_free_memory();
  bool kernels_have_grown() const;

  CachingAllocator& allocator_;
  int64_t allocated_before_ = 0;
  int64_t reserved_before_ = 0;
  int64_t resident_before_ = 0;
  std::vector<MappingLimit> mapping_limits_;
  mutable std::mutex mutex_;
  int64_t outside_bytes_ = 0;
  int64_t peak_outside_bytes_ = 0;
  int64_t limit_bytes_ = -1;
  int64_t outside_after_release_ = 0;  ///< growth when kernels were last given back
};

}  // namespace autotrain
