#pragma once

#include <cstdint>
#include <functional>
#include <set>

#include "device/memory_phase.h"

namespace autotrain {

/// Cuts a range of offsets into blocks: best fit, split on allocation, joined on release, memory
/// committed only when no free block is large enough. Memory is taken in granules where there is room
/// (huge pages), and given back page by page.
///
/// Pure bookkeeping: memory itself is behind `Pages`. Not thread-safe.
class BlockPool {
 public:
  enum class State : uint8_t { kUncommitted, kFree, kUsed };

  struct Block;
  struct BySize {
    bool operator()(const Block* a, const Block* b) const;
  };
  using BlockSet = std::set<Block*, BySize>;

  struct Block {
    int64_t offset = 0;
    int64_t size = 0;
    State state = State::kUncommitted;
    MemoryPhase phase = MemoryPhase::kOther;  // who allocated it; meaningful while used
    Block* before = nullptr;                  // neighbours by address
    Block* after = nullptr;
    BlockSet::node_type node;  // its place in a set, while it is in none: going back needs no memory
  };

  /// What the pool asks of the memory below it. `commit` returns false to refuse.
  struct Pages {
    std::function<bool(int64_t offset, int64_t bytes)> commit;
    std::function<void(int64_t offset, int64_t bytes)> decommit;
  };

  struct Units {
    int64_t granule = 0;    ///< committed at once where possible
    int64_t page = 0;       ///< smallest piece that is committed or given back; divides the granule
    int64_t alignment = 0;  ///< of every block's offset and size; divides the page
  };

  /// @param size in bytes, a multiple of the granule.
  BlockPool(int64_t size, Units units, Pages pages);
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  /// A used block of at least `bytes` out of committed memory; null when none is large enough.
  Block* allocate(int64_t bytes);

  /// The least that `grow(bytes)` would commit; -1 when the range has no room for such a block.
  int64_t growth_needed(int64_t bytes) const;

  /// Commits what is missing for one block of `bytes`, and up to `spare_bytes` more to complete a
  /// granule. False when the range is full or the memory below refused.
  bool grow(int64_t bytes, int64_t spare_bytes);

  /// Needs no memory: it runs in the destructors of tensors, whatever the state of the system.
  void release(Block* block) noexcept;

  /// Gives back at least `bytes` of free committed memory in whole pages, if there is so much.
  /// Spares the free memory that `grow(spared_for)` would build on. Returns the bytes given back: fewer, too,
  /// where the heap refuses the bookkeeping of more.
  int64_t trim(int64_t bytes, int64_t spared_for = 0) noexcept;

  /// Gives up addresses at the end of the range for ever: granules, at most `bytes`, as many as are not
  /// committed. Returns the bytes given up.
  int64_t drop_end(int64_t bytes);

  int64_t committed_bytes() const { return committed_bytes_; }

  /// Calls `visit` for every used block, in the order of addresses.
  void visit_used(const std::function<void(const Block&)>& visit) const;

 private:
  /// Where `grow` would take memory: `commit_bytes` from the start of `block` (uncommitted).
  struct Growth {
    Block* block = nullptr;
    int64_t commit_bytes = -1;
  };

  Growth best_growth(int64_t bytes) const;
  BlockSet& set_of(const Block& block);
  void insert(Block* block);
  void remove(Block* block);
  void make_spares(int count);
  bool has_spares(int count) noexcept;
  void keep_spare(Block* block);
  Block* take_spare();
  Block* cut(Block* block, int64_t size);
  Block* join_neighbours(Block* block);
  void absorb_after(Block* block);
  int64_t decommit_inside(Block* block, int64_t at_least);

  const Units units_;
  const Pages pages_;
  int64_t committed_bytes_ = 0;
  Block* first_ = nullptr;
  Block* spare_ = nullptr;  // blocks of no memory, for cuts that the heap must not prevent
  int spares_ = 0;
  BlockSet free_;
  BlockSet uncommitted_;
};

}  // namespace autotrain
