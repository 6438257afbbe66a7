#pragma once

#include <cstddef>
#include <cstdint>

namespace autotrain {

/// A reserved range of addresses, committed (given memory) piece by piece.
///
/// The range costs no memory until it is committed; committed memory is touched at once, so that
/// what is counted is what is resident. Not thread-safe.
class AddressSpace {
 public:
  static constexpr int64_t kGranule = int64_t{2} << 20;  ///< a transparent huge page
  static constexpr int64_t kPage = 4096;                 ///< smallest piece

  /// Reserves `bytes` of addresses, a multiple of the granule. Where a limit on addresses
  /// (`ulimit -v`) refuses, takes the largest halving of it that is granted, possibly none.
  explicit AddressSpace(int64_t bytes);
  ~AddressSpace();
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  std::byte* base() const { return base_; }
  int64_t size() const { return size_; }

  /// Gives memory to [offset, offset + bytes), both multiples of the page. False when the
  /// system refuses; then nothing is committed.
  bool commit(int64_t offset, int64_t bytes);

  /// Gives up the last `bytes` of the range, a multiple of the granule, none of it committed.
  void drop_end(int64_t bytes);

  /// Returns the memory of [offset, offset + bytes) to the system. Its content is lost.
  void decommit(int64_t offset, int64_t bytes);

 private:
  void* mapping_ = nullptr;
  int64_t mapping_bytes_ = 0;
  std::byte* base_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace autotrain
