#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "autotrain/memory.h"
#include "device/gpu_memory.h"

namespace autotrain {

/// The meter of a GPU: what this process adds on it, in LibTorch's caching allocator and outside of it (code
/// and scratch memory of libraries, NCCL). Outside is what the driver says that the process holds, less what
/// the allocator has; where the driver hides processes it is all that is used on the device, so that what
/// neighbours take counts too, which the log then says once.
///
/// A neighbour narrows the limit only when memory is short: no more is reserved than is free, less a little
/// for libraries. Every sample looks anew, so the limit widens when memory is given back.
class CudaMeter final : public MemoryMeter {
 public:
  explicit CudaMeter(std::unique_ptr<GpuMemory> gpu);
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

  int64_t free_bytes() const { return gpu_->free_bytes(); }
  int64_t total_bytes() const { return total_bytes_; }

  /// What this process held on the device when the meter was made: its context, and code and workspaces of
  /// libraries. Nothing: the driver does not say.
  std::optional<int64_t> own_at_start_bytes() const { return own_at_start_; }

  /// What others hold on the device now. Where the driver hides processes, all that was in use outside the
  /// allocator when the meter was made, this process's context included.
  int64_t others_bytes() const;

  /// The most that a run could have now, beside others.
  int64_t obtainable_bytes() const;

  /// Left free for libraries, which cannot be refused what they take.
  static constexpr int64_t kReserveBytes = int64_t{64} << 20;

 private:
  struct Own {
    int64_t bytes = 0;          ///< all that this process holds
    int64_t outside_bytes = 0;  ///< of it outside the allocator
  };

  std::optional<Own> own_now() const;
  int64_t everybodys_outside_now() const;
  void apply_limit();

  const std::unique_ptr<GpuMemory> gpu_;
  const int64_t total_bytes_;
  int64_t allocated_before_ = 0;
  int64_t reserved_before_ = 0;
  int64_t outside_before_ = 0;
  std::optional<int64_t> own_at_start_;
  mutable std::mutex mutex_;
  int64_t outside_bytes_ = 0;
  int64_t peak_outside_bytes_ = 0;
  int64_t limit_bytes_ = -1;
  int64_t retries_before_ = 0;
};

}  // namespace autotrain
