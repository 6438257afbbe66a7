#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "device/address_space.h"
#include "device/block_pool.h"

namespace autotrain {

/// The memory of an allocator: two ranges of addresses, each cut by a pool of its own.
///
/// Blocks below a mebibyte live apart, so that a small tensor that stays does not keep a large hole from
/// being joined or given back. Not thread-safe.
class BlockPools {
 public:
  enum class Kind : uint8_t { kMedium, kLarge };

  /// Reserves addresses for either, in bytes, multiples of `AddressSpace::kGranule`.
  BlockPools(int64_t medium_bytes, int64_t large_bytes);

  BlockPool& operator[](Kind kind) { return kind == Kind::kLarge ? large_ : medium_; }

  std::byte* address(Kind kind, const BlockPool::Block& block) const;
  bool holds(const void* data) const;

  int64_t committed_bytes() const { return medium_.committed_bytes() + large_.committed_bytes(); }
  int64_t address_bytes() const { return medium_space_.size() + large_space_.size(); }

  /// Gives back at least `bytes` of free memory, if there is so much, first of the pool that is about to grow
  /// by a block of `spared_for` bytes: what it would build on is spared there. Needs no heap.
  void trim(int64_t bytes, Kind growing, int64_t spared_for) noexcept;

  /// Gives at least `bytes` of addresses without memory back for ever, if there are so many.
  void drop_end(int64_t bytes);

  /// Calls `visit` for every block that is in use.
  void visit_used(const std::function<void(const BlockPool::Block&)>& visit) const;

 private:
  AddressSpace medium_space_;
  AddressSpace large_space_;
  BlockPool medium_;
  BlockPool large_;
};

}  // namespace autotrain
