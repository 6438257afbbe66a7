#pragma once

#include <cstdint>
#include <optional>

#include "autotrain/memory.h"

namespace autotrain {

/// What LibTorch's caching allocator has of a GPU, whoever allocated it. In bytes.
struct GpuAllocator {
  int64_t allocated_bytes = 0;  ///< by tensors, and by the workspaces that cuBLAS keeps for each thread
  int64_t reserved_bytes = 0;
  int64_t peak_allocated_bytes = 0;
  int64_t peak_reserved_bytes = 0;
  int64_t retries = 0;  ///< allocations so far that succeeded only after caches were emptied
};

/// An allocation that failed, as the allocator saw it: nothing in it counts from a baseline.
struct GpuRefusal {
  Refusal what;
  int64_t free_bytes = 0;  ///< that the device had then, for any process
};

/// One GPU's memory as driver and allocator know it. Thread-safe.
class GpuMemory {
 public:
  virtual ~GpuMemory() = default;

  virtual int64_t total_bytes() const = 0;

  /// What any process could have now.
  virtual int64_t free_bytes() const = 0;

  /// What the driver says that this process holds: context, code of libraries, and all that was allocated.
  /// Nothing: it does not say. What it says may be of another process, where containers number them anew.
  /// Takes up to some milliseconds.
  virtual std::optional<int64_t> own_bytes() const = 0;

  virtual GpuAllocator allocator() const = 0;
  virtual void reset_peaks() = 0;

  /// From now on the allocator refuses to reserve more than so many bytes.
  virtual void limit_reserved(int64_t bytes) = 0;

  /// Gives cached memory back that no tensor uses.
  virtual void empty_cache() = 0;

  /// The last refusal since `forget_refusal`.
  virtual std::optional<GpuRefusal> last_refusal() const = 0;
  virtual void forget_refusal() = 0;
};

}  // namespace autotrain
