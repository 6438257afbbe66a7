#include "device/caching_allocator.h"

#include <c10/util/Exception.h>

#include <cstring>
#include <thread>

#include "base/random.h"
#include "base/units.h"
#include "device/system_memory.h"
#include "support/refusing_heap.h"
#include "support/support.h"

namespace autotrain {
namespace {

// Small address ranges, so that tests also meet the end of them.
CachingAllocator make_allocator() {
  return CachingAllocator({.small_address_bytes = 512 * kMiB, .large_address_bytes = 512 * kMiB});
}

TEST(CachingAllocator, CountsEveryByteExactly) {
  auto allocator = make_allocator();
  {
    const c10::DataPtr a = allocator.allocate(1000);
    const c10::DataPtr b = allocator.allocate(5 * kMiB + 3);
    EXPECT_EQ(allocator.counts().allocated_bytes, 1000 + 5 * kMiB + 3);
    EXPECT_GE(allocator.counts().reserved_bytes, allocator.counts().allocated_bytes);
  }
  EXPECT_EQ(allocator.counts().allocated_bytes, 0);
  EXPECT_EQ(allocator.counts().peak_allocated_bytes, 1000 + 5 * kMiB + 3);
}

TEST(CachingAllocator, MemoryIsAlignedWritableAndDataIsContext) {
  auto allocator = make_allocator();
  for (const size_t bytes : {size_t{1}, size_t{63}, size_t{4096}, size_t{3} << 20}) {
    const c10::DataPtr block = allocator.allocate(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block.get()) % 64, 0u);
    EXPECT_EQ(block.get(), block.get_context());
    std::memset(block.get(), 0xff, bytes);
  }
  void* const raw = allocator.raw_allocate(100);
  allocator.raw_deallocate(raw);
  EXPECT_EQ(allocator.allocate(0).get(), nullptr);
}

TEST(CachingAllocator, FreedMemoryIsReusedWithoutNewMemory) {
  auto allocator = make_allocator();
  { const c10::DataPtr first = allocator.allocate(20 * kMiB); }
  const int64_t reserved = allocator.counts().reserved_bytes;
  EXPECT_GE(reserved, 20 * kMiB);
  { const c10::DataPtr again = allocator.allocate(20 * kMiB); }
  EXPECT_EQ(allocator.counts().reserved_bytes, reserved);
  allocator.empty_cache();
  EXPECT_EQ(allocator.counts().reserved_bytes, 0);
}

TEST(CachingAllocator, NeverReservesBeyondItsLimit) {
  auto allocator = make_allocator();
  allocator.set_limit(16 * kMiB);
  const c10::DataPtr held = allocator.allocate(10 * kMiB);
  EXPECT_THROW(allocator.allocate(10 * kMiB), c10::OutOfMemoryError);
  EXPECT_LE(allocator.counts().peak_reserved_bytes, 16 * kMiB);
  const auto refusal = allocator.last_refusal();
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->requested_bytes, 10 * kMiB);
  EXPECT_EQ(refusal->allocated_bytes, 10 * kMiB);
  EXPECT_FALSE(refusal->by_system);
  EXPECT_NO_THROW(allocator.allocate(5 * kMiB));
}

TEST(CachingAllocator, FragmentedFreeMemoryIsMovedBeforeARefusal) {
  auto allocator = make_allocator();
  std::vector<c10::DataPtr> blocks;
  for (int i = 0; i < 16; ++i) blocks.push_back(allocator.allocate(4 * kMiB));
  allocator.set_limit(allocator.counts().reserved_bytes);
  for (size_t i = 0; i < blocks.size(); i += 2) blocks[i].clear();
  // 32 MiB are free, in holes of 4 MiB.
  EXPECT_NO_THROW(allocator.allocate(24 * kMiB)) << "holes are given back and committed in one piece";
  EXPECT_LE(allocator.counts().peak_reserved_bytes, allocator.counts().limit_bytes);
}

TEST(CachingAllocator, LoweringTheLimitGivesFreeMemoryBack) {
  auto allocator = make_allocator();
  { const c10::DataPtr block = allocator.allocate(32 * kMiB); }
  allocator.set_limit(8 * kMiB);
  EXPECT_LE(allocator.counts().reserved_bytes, 8 * kMiB);
}

TEST(CachingAllocator, AbsurdSizesAreRefusedNotOverflowed) {
  auto allocator = make_allocator();
  EXPECT_THROW(allocator.allocate(size_t{1} << 62), c10::OutOfMemoryError);
  EXPECT_THROW(allocator.allocate(~size_t{0}), c10::OutOfMemoryError);
  EXPECT_EQ(allocator.counts().allocated_bytes, 0);
}

TEST(CachingAllocator, RefusalsTellWhatWasAliveByPhase) {
  auto allocator = make_allocator();
  std::vector<c10::DataPtr> held;
  {
    const PhaseScope phase(MemoryPhase::kData);
    held.push_back(allocator.allocate(3 * kMiB));
  }
  const PhaseScope phase(MemoryPhase::kForward);
  held.push_back(allocator.allocate(6 * kMiB));
  allocator.set_limit(12 * kMiB);
  EXPECT_THROW(allocator.allocate(8 * kMiB), c10::OutOfMemoryError);
  const Refusal refusal = *allocator.last_refusal();
  EXPECT_EQ(refusal.phase, "forward");
  ASSERT_EQ(refusal.by_phase.size(), 2u);
  EXPECT_EQ(refusal.by_phase[0].phase, "forward");
  EXPECT_EQ(refusal.by_phase[1].phase, "data");
  EXPECT_GE(refusal.largest[0].bytes, 6 * kMiB);
}

// Sizes as a training step mixes them; every block keeps its pattern until it is freed.
TEST(CachingAllocator, ThreadsNeverShareABlock) {
  auto allocator = make_allocator();
  const auto work = [&](uint64_t seed) {
    Random random(seed);
    std::vector<std::pair<c10::DataPtr, size_t>> live;
    const auto pattern = static_cast<int>(seed + 1);
    for (int step = 0; step < 2000; ++step) {
      if (live.size() < 20 && random.below(2) == 0) {
        const auto bytes = static_cast<size_t>(1 + random.below(random.below(8) == 0 ? 3 * kMiB : 4096));
        live.emplace_back(allocator.allocate(bytes), bytes);
        std::memset(live.back().first.get(), pattern, bytes);
      } else if (!live.empty()) {
        const auto at = static_cast<size_t>(random.below(static_cast<int64_t>(live.size())));
        const auto* bytes = static_cast<const unsigned char*>(live[at].first.get());
        ASSERT_EQ(bytes[0], pattern);
        ASSERT_EQ(bytes[live[at].second - 1], pattern);
        live.erase(live.begin() + static_cast<int64_t>(at));
      }
    }
  };
  std::vector<std::thread> threads;
  for (uint64_t seed = 0; seed < 4; ++seed) threads.emplace_back(work, seed);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(allocator.counts().allocated_bytes, 0);
}

TEST(CachingAllocator, SmallBlocksUseTheOtherAddressesWhenTheirOwnAreFull) {
  CachingAllocator allocator({.small_address_bytes = 2 * kMiB, .large_address_bytes = 64 * kMiB});
  EXPECT_EQ(allocator.counts().idle_address_bytes, 66 * kMiB);
  std::vector<c10::DataPtr> blocks;
  for (int i = 0; i < 20; ++i) blocks.push_back(allocator.allocate(512 * kKiB));
  EXPECT_EQ(allocator.counts().allocated_bytes, 20 * 512 * kKiB);
  EXPECT_EQ(allocator.counts().idle_address_bytes, 66 * kMiB - allocator.counts().reserved_bytes);
  blocks.clear();
  allocator.empty_cache();
  EXPECT_EQ(allocator.counts().reserved_bytes, 0);
}

TEST(CachingAllocator, GivesUpIdleAddressesButNoneThatHoldMemory) {
  CachingAllocator allocator({.small_address_bytes = 4 * kMiB, .large_address_bytes = 64 * kMiB});
  std::vector<c10::DataPtr> blocks;
  for (int i = 0; i < 10; ++i) blocks.push_back(allocator.allocate(2 * kMiB));
  const int64_t before = ProcessMemory::now().address_bytes;
  allocator.give_up_addresses(64 * kMiB);
  EXPECT_NEAR(static_cast<double>(before - ProcessMemory::now().address_bytes), 42.0 * kMiB, 6.0 * kMiB);
  for (auto& block : blocks) std::memset(block.get(), 7, 2 * kMiB);
  blocks.clear();
  for (int i = 0; i < 10; ++i) blocks.push_back(allocator.allocate(2 * kMiB));
  EXPECT_THROW(allocator.allocate(40 * kMiB), c10::OutOfMemoryError) << "those addresses are gone";
}

// It happens in the destructors of tensors, which must not throw.
TEST(CachingAllocator, GivingBackNeedsNoHeapEvenWhereMemoryGoesToTheSystem) {
  auto allocator = make_allocator();
  std::vector<c10::DataPtr> blocks;
  for (int i = 0; i < 64; ++i)
    blocks.push_back(allocator.allocate(i % 2 == 0 ? 3 * kMiB + 100 : 100 * kKiB + 64));
  allocator.set_limit(kMiB);
  const int64_t reserved = allocator.counts().reserved_bytes;
  {
    const test::RefusingHeap refusing;
    for (size_t i = 0; i < blocks.size(); i += 3) blocks[i].clear();
    for (auto& block : blocks) block.clear();
  }
  EXPECT_EQ(allocator.counts().allocated_bytes, 0);
  EXPECT_LT(allocator.counts().reserved_bytes, reserved / 2) << "what it has at hand suffices for most";
  EXPECT_NO_THROW(allocator.allocate(100 * kKiB));
  EXPECT_LE(allocator.counts().reserved_bytes, kMiB);
}

TEST(CachingAllocator, RefusesWhenTheSystemHasNoHeadroomLeft) {
  CachingAllocator allocator({.small_address_bytes = 4 * kMiB, .large_address_bytes = 256 * kMiB});
  int64_t headroom = 20 * kMiB;
  allocator.set_headroom([&] { return headroom; });
  const c10::DataPtr fits = allocator.allocate(16 * kMiB);
  headroom = 4 * kMiB;  // others took some
  EXPECT_THROW(allocator.allocate(8 * kMiB), c10::OutOfMemoryError);
  EXPECT_TRUE(allocator.last_refusal()->by_system);
  headroom = 10 * kMiB;
  EXPECT_NO_THROW(allocator.allocate(8 * kMiB));
}

}  // namespace
}  // namespace autotrain
