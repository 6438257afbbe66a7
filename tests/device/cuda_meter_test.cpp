#include "device/cuda_meter.h"

#include <algorithm>

#include "autotrain/log.h"
#include "base/units.h"
#include "support/support.h"

namespace autotrain {
namespace {

// One GPU and what processes hold of it.
struct Gpu {
  int64_t total = 80 * kGiB;
  int64_t used = 0;
  int64_t free() const { return total - used; }
};

// This process on it, as driver and allocator would tell.
class FakeMemory final : public GpuMemory {
 public:
  explicit FakeMemory(Gpu& gpu, int64_t libraries = 500 * kMiB) : gpu_(gpu) { grow_libraries(libraries); }

  int64_t total_bytes() const override { return gpu_.total; }
  int64_t free_bytes() const override { return gpu_.free(); }
  std::optional<int64_t> own_bytes() const override {
    if (while_asked) while_asked();
    if (hidden) return std::nullopt;
    return foreign.value_or(libraries_ + allocator_.reserved_bytes);
  }
  GpuAllocator allocator() const override { return allocator_; }
  void reset_peaks() override {
    allocator_.peak_allocated_bytes = allocator_.allocated_bytes;
    allocator_.peak_reserved_bytes = allocator_.reserved_bytes;
  }
  void limit_reserved(int64_t bytes) override { limit = bytes; }
  void empty_cache() override {
    gpu_.used -= allocator_.reserved_bytes - allocator_.allocated_bytes;
    allocator_.reserved_bytes = allocator_.allocated_bytes;
  }
  std::optional<GpuRefusal> last_refusal() const override { return refusal_; }
  void forget_refusal() override { refusal_.reset(); }

  // Whether the allocator had so much more to give.
  bool allocate(int64_t bytes) {
    if (allocator_.reserved_bytes + bytes > limit || bytes > gpu_.free()) {
      refusal_ = {{.requested_bytes = bytes,
                   .allocated_bytes = allocator_.allocated_bytes,
                   .reserved_bytes = allocator_.reserved_bytes},
                  gpu_.free()};
      return false;
    }
    gpu_.used += bytes;
    allocator_.allocated_bytes += bytes;
    allocator_.reserved_bytes += bytes;
    allocator_.peak_allocated_bytes = std::max(allocator_.peak_allocated_bytes, allocator_.allocated_bytes);
    allocator_.peak_reserved_bytes = std::max(allocator_.peak_reserved_bytes, allocator_.reserved_bytes);
    return true;
  }
  void release(int64_t bytes) { allocator_.allocated_bytes -= bytes; }  // stays reserved
  void grow_libraries(int64_t bytes) { libraries_ += bytes, gpu_.used += bytes; }

  bool hidden = false;                     // as in a container that hides processes
  std::optional<int64_t> foreign = {};     // what another process with this one's number holds
  std::function<void()> while_asked = {};  // what happens while the driver is asked
  int64_t limit = 80 * kGiB;

 private:
  Gpu& gpu_;
  GpuAllocator allocator_;
  int64_t libraries_ = 0;
  std::optional<GpuRefusal> refusal_;
};

// A meter and what it reads.
struct Metered {
  explicit Metered(
      Gpu& gpu, const std::function<void(FakeMemory&)>& before = [](FakeMemory&) {}) {
    auto owned = std::make_unique<FakeMemory>(gpu);
    memory = owned.get();
    before(*memory);
    meter = std::make_unique<CudaMeter>(std::move(owned));
  }
  FakeMemory* memory = nullptr;
  std::unique_ptr<CudaMeter> meter;
};

TEST(GpuMeter, CountsWhatThisProcessAddsAndNotWhatNeighboursTake) {
  Gpu gpu;
  Metered run(gpu);
  run.meter->set_limit(4 * kGiB);
  gpu.used += 10 * kGiB;
  ASSERT_TRUE(run.memory->allocate(kGiB));
  EXPECT_EQ(run.meter->sample_outside_bytes(), 0);
  EXPECT_EQ(run.meter->peak().total_bytes(), kGiB);
  EXPECT_EQ(run.meter->others_bytes(), 10 * kGiB);
  EXPECT_EQ(run.memory->limit, 4 * kGiB);
  gpu.used -= 10 * kGiB;
  EXPECT_EQ(run.meter->sample_outside_bytes(), 0);
  EXPECT_EQ(run.meter->others_bytes(), 0);
}

TEST(GpuMeter, WorkspacesAndCodeBeforeTheBaselineAreNobodysBudget) {
  Gpu gpu;
  Metered run(gpu, [](FakeMemory& memory) {
    memory.allocate(2 * 32 * kMiB);  // cuBLAS keeps them in the allocator, for each thread that multiplies
    memory.allocate(16 * kMiB);
    memory.release(16 * kMiB);
  });
  run.meter->set_limit(256 * kMiB);
  EXPECT_EQ(run.meter->allocated_bytes(), 0);
  EXPECT_EQ(run.meter->reserved_bytes(), 0);
  EXPECT_EQ(run.meter->sample_outside_bytes(), 0);
  EXPECT_EQ(run.meter->own_at_start_bytes(), 564 * kMiB);
  EXPECT_TRUE(run.memory->allocate(256 * kMiB)) << "all of the budget is the run's";
  EXPECT_FALSE(run.memory->allocate(1));
}

TEST(GpuMeter, LibrariesThatGrowAreTakenFromTheLimit) {
  Gpu gpu;
  Metered run(gpu);
  run.meter->set_limit(kGiB);
  run.memory->grow_libraries(300 * kMiB);
  EXPECT_EQ(run.meter->sample_outside_bytes(), 300 * kMiB);
  EXPECT_EQ(run.memory->limit, kGiB - 300 * kMiB);
  ASSERT_TRUE(run.memory->allocate(600 * kMiB));
  EXPECT_EQ(run.meter->peak().total_bytes(), 900 * kMiB);
  EXPECT_FALSE(run.memory->allocate(200 * kMiB));
  EXPECT_FALSE(run.meter->last_refusal()->by_system);
}

TEST(GpuMeter, WhereTheDriverHidesProcessesNeighboursCountAndThatIsSaidOnceAtMost) {
  int64_t said = 0;
  log::set_sink([&](const log::Record& record) {
    said += test::holds(std::string(record.text), "neighbours") ? 1 : 0;
  });
  Gpu gpu;
  const auto hide = [](FakeMemory& memory) { memory.hidden = true; };
  Metered run(gpu, hide), another(gpu, hide);
  log::set_sink(log::terminal_sink(), log::Level::kWarning);
  EXPECT_LE(said, 1);
  EXPECT_FALSE(run.meter->own_at_start_bytes());
  ASSERT_TRUE(run.memory->allocate(kGiB));
  EXPECT_EQ(run.meter->sample_outside_bytes(), 500 * kMiB) << "of the other run, which began after this one";
  gpu.used += 3 * kGiB;
  EXPECT_EQ(run.meter->sample_outside_bytes(), 3 * kGiB + 500 * kMiB);
}

TEST(GpuMeter, AProcessThatHoldsLessThanTheAllocatorIsNotThisOne) {
  Gpu gpu;
  Metered run(gpu, [](FakeMemory& memory) {
    memory.allocate(64 * kMiB);
    memory.foreign = 10 * kMiB;  // in a container another process has this one's number
  });
  EXPECT_FALSE(run.meter->own_at_start_bytes());
  run.memory->foreign = 40 * kGiB;
  ASSERT_TRUE(run.memory->allocate(kGiB));
  EXPECT_EQ(run.meter->sample_outside_bytes(), 0) << "once doubted it is never believed";
}

TEST(GpuMeter, OneAnswerThatFailsChangesNothing) {
  Gpu gpu;
  Metered run(gpu);
  run.memory->grow_libraries(100 * kMiB);
  EXPECT_EQ(run.meter->sample_outside_bytes(), 100 * kMiB);
  gpu.used += 10 * kGiB;
  run.memory->hidden = true;
  EXPECT_EQ(run.meter->sample_outside_bytes(), 100 * kMiB);
}

TEST(GpuMeter, WhatOtherThreadsAllocateWhileTheDriverIsAskedIsNotOutside) {
  Gpu gpu;
  Metered run(gpu);
  run.memory->while_asked = [&] { run.memory->allocate(200 * kMiB); };
  EXPECT_EQ(run.meter->sample_outside_bytes(), 0);
  run.memory->while_asked = [&] {
    run.memory->release(200 * kMiB);
    run.memory->empty_cache();
  };
  EXPECT_EQ(run.meter->sample_outside_bytes(), 0);
}

TEST(GpuMeter, ANeighbourNarrowsTheLimitOnlyWhileMemoryIsShort) {
  Gpu gpu;
  Metered run(gpu);
  run.meter->set_limit(60 * kGiB);
  ASSERT_TRUE(run.memory->allocate(20 * kGiB));
  gpu.used += 50 * kGiB;  // which leaves 9.5 GiB
  run.meter->sample_outside_bytes();
  EXPECT_EQ(run.memory->limit, 20 * kGiB + gpu.free() - CudaMeter::kReserveBytes);
  EXPECT_FALSE(run.memory->allocate(20 * kGiB));
  const auto refusal = run.meter->last_refusal();
  EXPECT_TRUE(refusal->by_system) << "the budget would have allowed it";
  EXPECT_EQ(refusal->others_bytes, 50 * kGiB);
  EXPECT_EQ(run.meter->obtainable_bytes(), 20 * kGiB + gpu.free() - CudaMeter::kReserveBytes);
  gpu.used -= 50 * kGiB;
  run.meter->sample_outside_bytes();
  EXPECT_EQ(run.memory->limit, 60 * kGiB);
  EXPECT_TRUE(run.memory->allocate(20 * kGiB));
}

TEST(GpuMeter, NoNeighbourTakesWhatIsReservedAlready) {
  Gpu gpu;
  Metered run(gpu);
  run.meter->set_limit(60 * kGiB);
  ASSERT_TRUE(run.memory->allocate(20 * kGiB));
  gpu.used = gpu.total;
  run.meter->sample_outside_bytes();
  EXPECT_EQ(run.memory->limit, 20 * kGiB);
}

// A run that repeats an update of a size until it fits, as the planner or the loop's recovery does.
int64_t samples_that_fit(Metered& run, int64_t samples) {
  constexpr int64_t kSample = kGiB;
  for (; samples > 0; --samples) {
    run.meter->sample_outside_bytes();
    if (!run.memory->allocate(samples * kSample)) continue;
    run.meter->sample_outside_bytes();
    run.memory->release(samples * kSample);
    return samples;
  }
  return 0;
}

TEST(GpuMeter, TwoRunsWhoseBudgetsAreTogetherTooLargeBothGoOn) {
  Gpu gpu;
  Metered first(gpu), second(gpu);
  for (Metered* const run : {&first, &second}) run->meter->set_limit(60 * kGiB);
  EXPECT_EQ(samples_that_fit(first, 50), 50);
  EXPECT_EQ(samples_that_fit(second, 50), 28) << "what the first one left, less code and the reserve";
  EXPECT_TRUE(second.meter->last_refusal()->by_system);
  first.meter->empty_cache();
  second.meter->empty_cache();
  EXPECT_EQ(samples_that_fit(second, 50), 50);
  for (Metered* const run : {&first, &second}) EXPECT_EQ(run->meter->peak().total_bytes(), 50 * kGiB);
}

TEST(GpuMeter, ResetPeaksCountFromNowOn) {
  Gpu gpu;
  Metered run(gpu);
  ASSERT_TRUE(run.memory->allocate(kGiB));
  run.memory->release(kGiB);
  run.meter->empty_cache();
  run.memory->grow_libraries(10 * kMiB);
  run.meter->sample_outside_bytes();
  run.meter->reset_peak();
  EXPECT_EQ(run.meter->peak().reserved_bytes, 0);
  EXPECT_EQ(run.meter->peak().total_bytes(), 10 * kMiB) << "which libraries have";
  EXPECT_FALSE(run.meter->last_refusal());
}

TEST(GpuMeter, TheLimitEndsWithTheMeter) {
  Gpu gpu;
  auto owned = std::make_unique<FakeMemory>(gpu);
  FakeMemory& memory = *owned;
  CudaMeter meter(std::move(owned));
  meter.set_limit(kGiB);
  EXPECT_EQ(memory.limit, kGiB);
  meter.remove_limit();
  EXPECT_EQ(memory.limit, gpu.total);
  meter.sample_outside_bytes();
  EXPECT_EQ(memory.limit, gpu.total);
}

}  // namespace
}  // namespace autotrain
