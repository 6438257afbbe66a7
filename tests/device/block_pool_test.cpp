#include "device/block_pool.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "base/random.h"
#include "support/refusing_heap.h"

namespace autotrain {
namespace {

constexpr int64_t kGranule = 1024;
constexpr int64_t kPage = 256;
constexpr int64_t kAlignment = 64;
constexpr BlockPool::Units kUnits = {.granule = kGranule, .page = kPage, .alignment = kAlignment};

// Memory that counts and checks: a page is committed at most once, and given back only if it was.
struct FakePages {
  std::map<int64_t, bool> committed;
  int64_t limit = 1 << 30;
  int64_t calls = 0;

  int64_t bytes() const {
    int64_t sum = 0;
    for (const auto& [page, is] : committed) sum += is ? kPage : 0;
    return sum;
  }

  BlockPool::Pages pages() {
    return {.commit =
                [this](int64_t at, int64_t bytes) {
                  EXPECT_EQ(at % kPage, 0);
                  EXPECT_EQ(bytes % kPage, 0);
                  ++calls;
                  if (this->bytes() + bytes > limit) return false;
                  for (int64_t g = at; g < at + bytes; g += kPage) {
                    EXPECT_FALSE(committed[g]) << "committed twice";
                    committed[g] = true;
                  }
                  return true;
                },
            .decommit =
                [this](int64_t at, int64_t bytes) {
                  for (int64_t g = at; g < at + bytes; g += kPage) {
                    EXPECT_TRUE(committed[g]) << "given back without having been taken";
                    committed[g] = false;
                  }
                }};
  }
};

BlockPool::Block* take(BlockPool& pool, int64_t bytes) {
  if (auto* block = pool.allocate(bytes)) return block;
  return pool.grow(bytes, kGranule) ? pool.allocate(bytes) : nullptr;
}

TEST(BlockPool, FreedNeighboursAreJoinedAndUsedAgain) {
  FakePages memory;
  BlockPool pool(64 * kGranule, kUnits, memory.pages());
  auto* a = take(pool, 512);
  auto* b = take(pool, 512);
  EXPECT_EQ(memory.bytes(), kGranule);
  pool.release(a);
  pool.release(b);
  auto* c = take(pool, 1024);
  ASSERT_NE(c, nullptr);
  EXPECT_EQ(c->offset, 0);
  EXPECT_EQ(memory.bytes(), kGranule) << "two freed halves make one whole without new memory";
}

TEST(BlockPool, TakesTheSmallestBlockThatFits) {
  FakePages memory;
  BlockPool pool(64 * kGranule, kUnits, memory.pages());
  auto* large = take(pool, 2048);
  auto* wall = take(pool, 64);
  auto* small = take(pool, 512);
  auto* wall2 = take(pool, 64);
  const int64_t small_offset = small->offset;
  pool.release(large);
  pool.release(small);
  EXPECT_EQ(take(pool, 448)->offset, small_offset);
  pool.release(wall);
  pool.release(wall2);
}

TEST(BlockPool, GrowthBuildsOnTheFreeBlockBeforeIt) {
  FakePages memory;
  BlockPool pool(64 * kGranule, kUnits, memory.pages());
  auto* a = take(pool, 1536);  // two granules, a quarter of the second left
  EXPECT_EQ(pool.growth_needed(1536), kGranule) << "half a granule is there already";
  ASSERT_NE(take(pool, 1536), nullptr);
  EXPECT_EQ(memory.bytes(), 3 * kGranule);
  pool.release(a);
}

TEST(BlockPool, TrimGivesBackWholeFreePagesOnly) {
  FakePages memory;
  BlockPool pool(64 * kGranule, kUnits, memory.pages());
  auto* a = take(pool, 512);
  auto* b = take(pool, 8 * kGranule);
  pool.release(b);
  const int64_t before = pool.committed_bytes();
  const int64_t given = pool.trim(1 << 20);
  EXPECT_GE(given, 8 * kGranule);
  EXPECT_EQ(pool.committed_bytes(), before - given);
  EXPECT_EQ(memory.bytes(), pool.committed_bytes());
  EXPECT_EQ(pool.committed_bytes(), 512) << "the two pages that a lives in stay";
  pool.release(a);
}

TEST(BlockPool, ARefusedGrowthLeavesEverythingAsItWas) {
  FakePages memory;
  memory.limit = 4 * kGranule;
  BlockPool pool(64 * kGranule, kUnits, memory.pages());
  auto* a = take(pool, 3 * kGranule);
  EXPECT_FALSE(pool.grow(2 * kGranule, 0));
  EXPECT_EQ(pool.committed_bytes(), 3 * kGranule);
  EXPECT_NE(take(pool, kGranule), nullptr);
  pool.release(a);
}

TEST(BlockPool, AFullRangeIsRefusedNotOverrun) {
  FakePages memory;
  BlockPool pool(4 * kGranule, kUnits, memory.pages());
  EXPECT_EQ(pool.growth_needed(5 * kGranule), -1);
  EXPECT_EQ(take(pool, 5 * kGranule), nullptr);
  EXPECT_NE(take(pool, 4 * kGranule), nullptr);
}

// Random allocations, releases and trims against a plain list of intervals.
class BlockPoolRandom : public testing::TestWithParam<int> {};

TEST_P(BlockPoolRandom, NeverOverlapsAndKeepsItsCounts) {
  Random random(static_cast<uint64_t>(GetParam()));
  FakePages memory;
  memory.limit = 96 * kGranule;
  BlockPool pool(256 * kGranule, kUnits, memory.pages());
  std::vector<BlockPool::Block*> live;
  for (int step = 0; step < 3000; ++step) {
    const int64_t dice = random.below(100);
    if (dice < 55) {
      const int64_t bytes = 1 + random.below(random.below(4) == 0 ? 20 * kGranule : 700);
      if (auto* block = take(pool, bytes)) {
        ASSERT_GE(block->size, bytes);
        ASSERT_EQ(block->offset % kAlignment, 0);
        live.push_back(block);
      }
    } else if (dice < 95 && !live.empty()) {
      const auto at = static_cast<size_t>(random.below(static_cast<int64_t>(live.size())));
      {
        const test::RefusingHeap refusing;
        pool.release(live[at]);
        if (dice >= 85) pool.trim(1 + at * kGranule);
      }
      live.erase(live.begin() + static_cast<int64_t>(at));
    } else if (dice >= 95) {
      pool.trim(1 + random.below(32 * kGranule), random.below(2) == 0 ? 0 : random.below(8 * kGranule));
    }
    ASSERT_EQ(pool.committed_bytes(), memory.bytes());
  }
  std::map<int64_t, int64_t> intervals;
  size_t visited = 0;
  pool.visit_used([&](const BlockPool::Block&) { ++visited; });
  EXPECT_EQ(visited, live.size());
  for (const auto* block : live) {
    intervals[block->offset] = block->size;
    for (int64_t g = block->offset / kPage * kPage; g < block->offset + block->size; g += kPage) {
      EXPECT_TRUE(memory.committed[g]) << "a used block lies in committed memory";
    }
  }
  int64_t end = 0;
  for (const auto& [offset, size] : intervals) {
    EXPECT_GE(offset, end) << "blocks overlap";
    end = offset + size;
  }
  for (auto* block : live) pool.release(block);
  pool.trim(1 << 30);
  EXPECT_EQ(memory.bytes(), 0) << "everything can be given back once everything is free";
}

INSTANTIATE_TEST_SUITE_P(Seeds, BlockPoolRandom, testing::Range(0, 20));

}  // namespace
}  // namespace autotrain
