#pragma once

#include <c10/core/Allocator.h>

#include <atomic>
#include <cstdint>

namespace autotrain {

/// LibTorch's CPU allocator of this process once there has been a run: it hands out memory of
/// `CachingAllocator::process_wide()` to runs, and that of the allocator before it to everybody else.
///
/// It stays where it was put: memory of the one before may be given back by way of it at any time, and the
/// other way round. Thread-safe.
class AllocatorSwitch final : public c10::Allocator {
 public:
  /// The one of this process, made at the first call.
  static AllocatorSwitch& process_wide();

  /// Puts it in the place of LibTorch's.
  void install();

  /// Whether there is a run, or somebody else who measures memory; before the first, it hands out nothing of
  /// the runs' memory.
  void set_in_use(bool yes) { in_use_ = yes; }

  /// Bytes that the allocator before holds for the program beside the runs.
  int64_t program_bytes() const;

  /// @throws c10::OutOfMemoryError when the run's limit or the system refuses.
  c10::DataPtr allocate(size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* destination, const void* source, size_t bytes) const override;

 private:
  static void free_of_program(void* data) noexcept;
  static void free_any(void* data) noexcept;
  bool serves_caller() const;
  c10::DataPtr allocate_for_program(size_t bytes);

  c10::Allocator* before_ = nullptr;
  std::atomic<bool> in_use_ = false;
  std::atomic<int64_t> program_bytes_ = 0;
};

}  // namespace autotrain
