#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace autotrain {

/// A live allocation, or several of one size and phase together.
struct LiveBlock {
  int64_t bytes = 0;
  int64_t count = 1;
  std::string phase = {};  ///< what the run was doing when it allocated: "forward", "data", …
};

/// What was asked for and what stood in the way when an allocation was refused.
struct Refusal {
  int64_t requested_bytes = 0;
  int64_t allocated_bytes = 0;           ///< held by tensors at that moment
  int64_t reserved_bytes = 0;            ///< held by the allocator; the rest of it is fragmentation
  int64_t outside_bytes = 0;             ///< use outside the allocator, when it was last measured
  int64_t limit_bytes = 0;               ///< of reserved and outside; negative: none
  bool by_system = false;                ///< the system refused although the limit would have allowed it
  int64_t others_bytes = 0;              ///< by_system, on a GPU: what others held of it; 0: not known
  std::string phase = {};                ///< what the run was doing
  std::vector<LiveBlock> by_phase = {};  ///< all live memory, one row a phase, largest first
  std::vector<LiveBlock> largest = {};   ///< the largest live blocks, at most eight rows

  /// What would have been in use with the block that was refused.
  int64_t total_bytes() const { return reserved_bytes + outside_bytes + requested_bytes; }
};

/// The peaks since the last reset. All in bytes.
struct MemoryPeak {
  int64_t allocated_bytes = 0;  ///< what tensors held
  int64_t reserved_bytes = 0;   ///< what the allocator held for them: the larger, the one that decides
  int64_t outside_bytes = 0;    ///< growth of use outside the allocator (libraries, context, others)
  int64_t retries = 0;          ///< allocations that succeeded only after caches were emptied

  /// What a budget is compared with.
  int64_t total_bytes() const { return reserved_bytes + outside_bytes; }
};

/// The memory of one device as a run sees it: what is used, what was used at most, and a limit that
/// refuses. Every number counts from the moment the meter was made ("the baseline"), so that what
/// the process used before is nobody's budget; nor is what other processes use. Thread-safe.
class MemoryMeter {
 public:
  virtual ~MemoryMeter() = default;

  virtual int64_t allocated_bytes() const = 0;
  virtual int64_t reserved_bytes() const = 0;

  /// Measures what is used outside the allocator now, and counts it into the peak. Costs some
  /// microseconds, on a GPU up to some milliseconds: for the ends of updates, not of operations.
  virtual int64_t sample_outside_bytes() = 0;

  virtual MemoryPeak peak() const = 0;
  virtual void reset_peak() = 0;

  /// From now on an allocation that would take reserved plus outside use beyond `bytes` fails with
  /// `c10::OutOfMemoryError`.
  virtual void set_limit(int64_t bytes) = 0;
  virtual void remove_limit() = 0;

  /// Gives unused cached memory back to the system.
  virtual void empty_cache() = 0;

  /// The last refusal since the last `reset_peak`, as far as this device can tell.
  virtual std::optional<Refusal> last_refusal() const = 0;
};

}  // namespace autotrain
