#pragma once

#include <c10/core/Device.h>

#include <mutex>

#include "autotrain/memory.h"

namespace autotrain {

/// The meter of a CUDA device: LibTorch's caching allocator, and what the device shows as used
/// outside of it (context, cuDNN, NCCL, other processes).
class CudaMeter final : public MemoryMeter {
 public:
  explicit CudaMeter(c10::DeviceIndex index);
  ~CudaMeter() override;
  CudaMeter(const CudaMeter&) = delete;
  CudaMeter& operator=(const CudaMeter&) = delete;

  int64_t allocated_bytes() const override;
  int64_t reserved_bytes() const override;
  int64_t sample_outside_bytes() override;
  MemoryPeak peak() const override;
  void reset_peak() override;
  void set_limit(int64_t bytes) override;
  void remove_limit() override;
  void empty_cache() override;
  std::optional<Refusal> last_refusal() const override;

  int64_t free_bytes() const;

  /// What the device had in use outside the allocator when this meter was made.
  int64_t outside_at_start_bytes() const { return outside_before_; }
  int64_t total_bytes() const { return total_bytes_; }

 private:
  int64_t used_outside_now() const;
  void apply_limit();

  const c10::DeviceIndex index_;
  int64_t total_bytes_ = 0;
  int64_t allocated_before_ = 0;
  int64_t reserved_before_ = 0;
  int64_t outside_before_ = 0;
  mutable std::mutex mutex_;
  int64_t outside_bytes_ = 0;
  int64_t peak_outside_bytes_ = 0;
  int64_t limit_bytes_ = -1;
  int64_t retries_before_ = 0;
};

}  // namespace autotrain
