#pragma once

#include <c10/core/Allocator.h>

#include <array>
#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "autotrain/memory.h"
#include "device/address_space.h"
#include "device/block_pool.h"
#include "device/memory_phase.h"

namespace autotrain {

/// LibTorch's CPU allocator of a run: caching, counting and refusing.
///
/// Freed blocks stay committed and are handed out again, so a training step faults no pages after
/// its first round. Two numbers are kept apart: *allocated* counts the bytes that tensors asked
/// for, exactly; *reserved* counts the memory committed for them, which is what the machine pays.
/// Reserved never exceeds the limit: before a refusal, free memory is given back and committed
/// anew where it is needed. Thread-safe.
///
/// Lives until the process ends: tensors may outlive whoever installed it.
class CachingAllocator final : public c10::Allocator {
 public:
  struct Options {
    int64_t small_address_bytes = 0;  ///< addresses to reserve for blocks below a mebibyte
    int64_t large_address_bytes = 0;  ///< and for all others
  };
  explicit CachingAllocator(Options options);

  /// The one of this process, made at the first call.
  static CachingAllocator& process_wide();

  /// Puts the process-wide one in the place of LibTorch's, where it stays: memory of the one before may be
  /// given back by way of this one at any time, and the other way round. It hands out memory of its own to
  /// runs only, and that of the allocator before to everybody else.
  void install();

  /// Whether there is a run, or somebody else who measures memory; before the first, nothing is handed out.
  void set_in_use(bool yes) { in_use_ = yes; }

  /// What the allocator before holds for the program beside the runs.
  int64_t program_bytes() const;

  /// @throws c10::OutOfMemoryError when the limit or the system refuses.
  c10::DataPtr allocate(size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* destination, const void* source, size_t bytes) const override;

  /// Bounds what is reserved. Lowering it below what is reserved gives free memory
  /// back and refuses growth until enough is freed.
  void set_limit(int64_t bytes);
  int64_t limit_bytes() const;

  /// What the system can still give beside a safe reserve, asked before memory is committed. Unset: it is
  /// not asked.
  void set_headroom(std::function<int64_t()> headroom);

  /// Asked before every allocation; where it says yes, that one is refused as if the system had. Called with
  /// the allocator locked: it must not allocate tensors. Unset: nothing is injected.
  using Fault = std::function<bool(int64_t bytes, MemoryPhase phase)>;
  void set_fault(Fault fault);

  int64_t allocated_bytes() const;
  int64_t reserved_bytes() const;

  /// Addresses that were reserved at the start and hold no memory now: they count against RLIMIT_AS.
  int64_t idle_address_bytes() const;

  /// Gives at least `bytes` of idle addresses back for ever, if there are so many.
  void give_up_addresses(int64_t bytes);

  int64_t peak_allocated_bytes() const;
  int64_t peak_reserved_bytes() const;

  /// Peaks start again from the present values.
  void reset_peaks();

  /// Returns all free memory, in whole pages, to the system.
  void empty_cache();

  /// The last refusal since `clear_refusal`.
  std::optional<Refusal> last_refusal() const;
  void clear_refusal();

  std::array<int64_t, kMemoryPhases> allocated_by_phase() const;

 private:
  struct Header;
  enum class Pool : uint8_t { kMedium, kLarge };

  static void free_block(void* data) noexcept;
  static void free_of_program(void* data) noexcept;
  static void free_any(void* data) noexcept;
  bool serves_caller() const;
  bool holds(const void* data) const;
  c10::DataPtr allocate_for_program(size_t bytes);
  void release(void* data) noexcept;

  BlockPool& pool(Pool which) { return which == Pool::kLarge ? large_ : medium_; }
  BlockPool::Pages pages_of(AddressSpace& space);
  bool injected_fault(int64_t bytes);
  BlockPool::Block* find_block(Pool which, int64_t bytes);
  int64_t make_room(Pool which, int64_t bytes);
  int64_t limit_now() const;
  int64_t reserved_unlocked() const;
  int64_t trim_unlocked(int64_t bytes, Pool growing, int64_t spared_for) noexcept;
  Refusal describe_refusal(int64_t bytes) const;
  void count(int64_t bytes);

  c10::Allocator* before_ = nullptr;  ///< null: this one was not installed
  std::atomic<bool> in_use_ = false;
  std::atomic<int64_t> program_bytes_ = 0;
  mutable std::mutex mutex_;
  AddressSpace medium_space_;
  AddressSpace large_space_;
  BlockPool medium_;
  BlockPool large_;
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
