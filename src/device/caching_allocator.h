#pragma once

#include <c10/core/Allocator.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>

#include "autotrain/memory.h"
#include "device/block_pools.h"
#include "device/memory_phase.h"

namespace autotrain {

/// The CPU allocator of runs: caching, counting and refusing.
///
/// Freed blocks stay committed and are handed out again, so a training step faults no pages after
/// its first round. Two numbers are kept apart: *allocated* counts the bytes that tensors asked
/// for, exactly; *reserved* counts the memory committed for them, which is what the machine pays.
/// Reserved never exceeds the limit: before a refusal, free memory is given back and committed
/// anew where it is needed. Thread-safe.
///
/// Lives until the process ends: tensors may outlive the run.
class CachingAllocator final : public c10::Allocator {
 public:
  struct Options {
    int64_t small_address_bytes = 0;  ///< addresses to reserve for blocks below a mebibyte
    int64_t large_address_bytes = 0;  ///< and for all others
  };
  explicit CachingAllocator(Options options);

  /// The one of this process's runs, made at the first call.
  static CachingAllocator& process_wide();

  /// @throws c10::OutOfMemoryError when the limit or the system refuses.
  c10::DataPtr allocate(size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* destination, const void* source, size_t bytes) const override;

  /// Whether an address lies in the memory of this one.
  bool holds(const void* data) const;

  /// Bounds what is reserved. Lowering it below what is reserved gives free memory
  /// back and refuses growth until enough is freed.
  void set_limit(int64_t bytes);

  /// What the system can still give beside a safe reserve, asked before memory is committed. Unset: it is
  /// not asked.
  void set_headroom(std::function<int64_t()> headroom);

  /// Asked before every allocation; where it says yes, that one is refused as if the system had. Called with
  /// the allocator locked: it must not allocate tensors. Unset: nothing is injected.
  using Fault = std::function<bool(int64_t bytes, MemoryPhase phase)>;
  void set_fault(Fault fault);

  struct Counts {
    int64_t allocated_bytes = 0;
    int64_t reserved_bytes = 0;
    int64_t peak_allocated_bytes = 0;  ///< since `start_counting`, as the next
    int64_t peak_reserved_bytes = 0;
    int64_t limit_bytes = 0;
    int64_t idle_address_bytes = 0;  ///< reserved at the start, without memory now: RLIMIT_AS counts them
  };
  Counts counts() const;

  /// Peaks start again from the present values, and the last refusal is forgotten.
  void start_counting();

  /// Gives at least `bytes` of idle addresses back for ever, if there are so many.
  void give_up_addresses(int64_t bytes);

  /// Returns all free memory, in whole pages, to the system.
  void empty_cache();

  /// The last refusal since `start_counting`.
  std::optional<Refusal> last_refusal() const;

 private:
  struct Header;
  using Pool = BlockPools::Kind;

  static void lock_for_fork();
  static void unlock_after_fork();
  static void free_block(void* data) noexcept;
  void release(void* data) noexcept;
  bool injected_fault(int64_t bytes);
  BlockPool::Block* find_block(Pool which, int64_t bytes);
  int64_t make_room(Pool which, int64_t bytes);
  Refusal describe_refusal(int64_t bytes) const;

  mutable std::mutex mutex_;
  BlockPools pools_;
  int64_t limit_bytes_;
  std::function<int64_t()> headroom_;
  Fault fault_;
  int64_t allocated_bytes_ = 0;
  int64_t peak_allocated_bytes_ = 0;
  int64_t peak_reserved_bytes_ = 0;
  int64_t most_allocated_ever_ = 0;  ///< since the last `empty_cache`
  bool refused_by_system_ = false;
  std::optional<Refusal> refusal_;
};

}  // namespace autotrain
