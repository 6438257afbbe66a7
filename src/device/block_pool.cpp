#include "device/block_pool.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <memory>
#include <new>
#include <utility>

#include "autotrain/error.h"
#include "base/units.h"

namespace autotrain {

bool BlockPool::BySize::operator()(const Block* a, const Block* b) const {
  return a->size != b->size ? a->size < b->size : a->offset < b->offset;
}

namespace {

// One for the block that an allocation cuts, two for one whose middle is given back after a release.
constexpr int kSpares = 3;

template <class Block>
void delete_chain(Block* block) {
  while (block != nullptr) delete std::exchange(block, block->after);
}

}  // namespace

BlockPool::BlockPool(int64_t size, Units units, Pages pages) : units_(units), pages_(std::move(pages)) {
  make_spares(1);
  first_ = take_spare();
  first_->size = size;
  insert(first_);
}

BlockPool::~BlockPool() {
  delete_chain(first_);
  delete_chain(spare_);
}

// Has so many blocks at hand. @throws std::bad_alloc.
void BlockPool::make_spares(int count) {
  while (spares_ < count) {
    auto block = std::make_unique<Block>();
    BlockSet maker;
    maker.insert(block.get());
    block->node = maker.extract(maker.begin());
    keep_spare(block.release());
  }
}

bool BlockPool::has_spares(int count) noexcept {
  try {
    make_spares(count);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void BlockPool::keep_spare(Block* block) {
  block->after = std::exchange(spare_, block);
  ++spares_;
}

BlockPool::Block* BlockPool::take_spare() {
  --spares_;
  return std::exchange(spare_, spare_->after);
}

BlockPool::BlockSet& BlockPool::set_of(const Block& block) {
  return block.state == State::kFree ? free_ : uncommitted_;
}

void BlockPool::insert(Block* block) {
  block->node.value() = block;
  set_of(*block).insert(std::move(block->node));
}

void BlockPool::remove(Block* block) {
  block->node = set_of(*block).extract(block);
}

BlockPool::Block* BlockPool::allocate(int64_t bytes) {
  Block wanted;
  wanted.size = round_up(bytes, units_.alignment);
  wanted.offset = -1;
  const auto fit = free_.lower_bound(&wanted);
  if (fit == free_.end()) return nullptr;
  Block* const block = *fit;
  make_spares(kSpares);  // before anything is changed
  remove(block);
  block->state = State::kUsed;
  if (Block* const rest = cut(block, wanted.size)) {
    rest->state = State::kFree;
    insert(rest);
  }
  return block;
}

void BlockPool::release(Block* block) noexcept {
  block->state = State::kFree;
  insert(join_neighbours(block));
}

// Shortens `block`, which is in no set, to `size`; returns the rest, made of a spare, of the same state and
// in no set, or null when nothing is left over.
BlockPool::Block* BlockPool::cut(Block* block, int64_t size) {
  if (block->size == size) return nullptr;
  Block* const rest = take_spare();
  rest->offset = block->offset + size;
  rest->size = block->size - size;
  rest->state = block->state;
  rest->before = block;
  rest->after = block->after;
  if (rest->after != nullptr) rest->after->before = rest;
  block->after = rest;
  block->size = size;
  return rest;
}

void BlockPool::absorb_after(Block* block) {
  Block* const gone = block->after;
  block->size += gone->size;
  block->after = gone->after;
  if (block->after != nullptr) block->after->before = block;
  if (spares_ < kSpares)
    keep_spare(gone);
  else
    delete gone;
}

// Joins `block`, which is in no set, with neighbours of its state; the result is in no set.
BlockPool::Block* BlockPool::join_neighbours(Block* block) {
  if (block->after != nullptr && block->after->state == block->state) {
    remove(block->after);
    absorb_after(block);
  }
  if (block->before != nullptr && block->before->state == block->state) {
    block = block->before;
    remove(block);
    absorb_after(block);
  }
  return block;
}

// Committing the start of an uncommitted block extends the free block before it, if there is one;
// committing all of it joins the one after it too. The cheapest of these ways.
BlockPool::Growth BlockPool::best_growth(int64_t bytes) const {
  bytes = round_up(bytes, units_.alignment);
  Growth best;
  for (Block* const hole : uncommitted_) {
    const auto free_size = [](const Block* b) {
      return b != nullptr && b->state == State::kFree ? b->size : 0;
    };
    const int64_t missing = std::max<int64_t>(bytes - free_size(hole->before), units_.page);
    int64_t commit = round_up(missing, units_.page);
    if (commit > hole->size) {
      if (missing > hole->size + free_size(hole->after)) continue;
      commit = hole->size;
    }
    const bool better = best.block == nullptr || commit < best.commit_bytes ||
                        (commit == best.commit_bytes && hole->offset < best.block->offset);
    if (better) best = {hole, commit};
  }
  return best;
}

int64_t BlockPool::growth_needed(int64_t bytes) const {
  return best_growth(bytes).commit_bytes;
}

bool BlockPool::grow(int64_t bytes, int64_t spare_bytes) {
  const Growth growth = best_growth(bytes);
  if (growth.block == nullptr) return false;
  const int64_t end = growth.block->offset + growth.commit_bytes;
  const int64_t rest = growth.block->size - growth.commit_bytes;
  const int64_t to_granule = std::min(round_up(end, units_.granule) - end, rest);
  const int64_t commit = growth.commit_bytes + (to_granule <= spare_bytes ? to_granule : 0);
  make_spares(kSpares);
  if (!pages_.commit(growth.block->offset, commit)) return false;
  committed_bytes_ += commit;
  remove(growth.block);
  if (Block* const hole = cut(growth.block, commit)) insert(hole);
  growth.block->state = State::kFree;
  insert(join_neighbours(growth.block));
  return true;
}

int64_t BlockPool::trim(int64_t bytes, int64_t spared_for) noexcept {
  const Block* spared_before = nullptr;
  const Block* spared_after = nullptr;
  if (spared_for > 0) {
    if (const Growth growth = best_growth(spared_for); growth.block != nullptr) {
      spared_before = growth.block->before;
      spared_after = growth.block->after;
    }
  }
  int64_t given_back = 0;
  Block last;  // the largest first: fewest calls. What is left of one is smaller
  last.size = std::numeric_limits<int64_t>::max();
  while (given_back < bytes) {
    const auto next = free_.lower_bound(&last);
    if (next == free_.begin()) break;
    Block* const block = *std::prev(next);
    if (block->size < units_.page) break;
    last.size = block->size;
    last.offset = block->offset;
    if (block == spared_before || block == spared_after) continue;
    given_back += decommit_inside(block, bytes - given_back);
  }
  return given_back;
}

// Decommits whole pages from the end of a free block: `at_least` bytes, or all there are; none where the heap
// has no room for the blocks that are left.
int64_t BlockPool::decommit_inside(Block* block, int64_t at_least) {
  const int64_t first = round_up(block->offset, units_.page);
  const int64_t end = (block->offset + block->size) / units_.page * units_.page;
  if (end <= first) return 0;
  const int64_t wanted = at_least < end - first ? round_up(at_least, units_.page) : end - first;
  const int64_t start = end - wanted;
  const int pieces = (start > block->offset ? 1 : 0) + (end < block->offset + block->size ? 1 : 0);
  if (!has_spares(pieces)) return 0;
  pages_.decommit(start, end - start);
  committed_bytes_ -= end - start;

  remove(block);
  if (start > block->offset) {
    Block* const head = block;
    block = cut(head, start - head->offset);
    insert(head);
  }
  if (Block* const tail = cut(block, end - start)) insert(tail);
  block->state = State::kUncommitted;
  insert(join_neighbours(block));
  return end - start;
}

int64_t BlockPool::drop_end(int64_t bytes) {
  Block* last = first_;
  while (last->after != nullptr) last = last->after;
  if (last->state != State::kUncommitted) return 0;
  const int64_t spare = last->size - units_.granule;  // a block that stays keeps the chain simple
  const int64_t dropped = std::max<int64_t>(0, std::min(bytes, spare)) / units_.granule * units_.granule;
  if (dropped == 0) return 0;
  remove(last);
  last->size -= dropped;
  insert(last);
  return dropped;
}

void BlockPool::visit_used(const std::function<void(const Block&)>& visit) const {
  for (const Block* block = first_; block != nullptr; block = block->after) {
    if (block->state == State::kUsed) visit(*block);
  }
}

}  // namespace autotrain
