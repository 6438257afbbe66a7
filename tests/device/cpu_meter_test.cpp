#include "device/cpu_meter.h"

#include <torch/types.h>

#include "base/units.h"
#include "support/support.h"

namespace autotrain {
namespace {

TEST(CpuMeter, SeesTensorsAndForgetsThemToTheByte) {
  CpuMeter meter;
  EXPECT_EQ(meter.allocated_bytes(), 0);
  {
    const torch::Tensor tensor = torch::zeros({1000, 1000});
    EXPECT_EQ(meter.allocated_bytes(), 4'000'000);
    EXPECT_GE(meter.peak().reserved_bytes, 4'000'000);
  }
  EXPECT_EQ(meter.allocated_bytes(), 0);
}

TEST(CpuMeter, CountsFromItsOwnStart) {
  const auto before = std::make_unique<CpuMeter>();
  const torch::Tensor held = torch::zeros({1 << 20});
  CpuMeter meter;
  EXPECT_EQ(meter.allocated_bytes(), 0) << "what was there before is nobody's budget";
  EXPECT_EQ(meter.peak().allocated_bytes, 0);
}

TEST(CpuMeter, RefusesBeyondItsLimitAndWorksAgainWithoutIt) {
  CpuMeter meter;
  meter.set_limit(32 * kMiB);
  EXPECT_THROW(torch::zeros({64 << 20}), c10::OutOfMemoryError);
  EXPECT_TRUE(meter.last_refusal());
  meter.remove_limit();
  EXPECT_NO_THROW(torch::zeros({64 << 20}));
}

TEST(CpuMeter, OneThatGoesLeavesTheLimitOfAnotherInForce) {
  CpuMeter meter;
  meter.set_limit(32 * kMiB);
  {
    CpuMeter another;
    another.set_limit(512 * kMiB);
    EXPECT_NO_THROW(torch::zeros({64 << 20}));
  }
  EXPECT_THROW(torch::zeros({64 << 20}), c10::OutOfMemoryError);
  EXPECT_NO_THROW(torch::zeros({4 << 20}));
}

TEST(CpuMeter, MemoryOutsideTheAllocatorIsMeasuredAndTakenFromTheLimit) {
  CpuMeter meter;
  meter.set_limit(64 * kMiB);
  const int64_t before = meter.sample_outside_bytes();
  std::vector<char> outside(48 * kMiB, 1);
  const int64_t after = meter.sample_outside_bytes();
  EXPECT_NEAR(static_cast<double>(after - before), 48.0 * kMiB, 4.0 * kMiB);
  EXPECT_GE(meter.peak().total_bytes(), 44 * kMiB);
  EXPECT_THROW(torch::zeros({8 << 20}), c10::OutOfMemoryError) << "32 MiB no longer fit beside them";
  EXPECT_EQ(outside.back(), 1);
}

TEST(CpuMeter, TensorsOutliveTheMeterThatCountedThem) {
  torch::Tensor survivor;
  {
    CpuMeter meter;
    survivor = torch::full({1 << 18}, 3.0);
  }
  EXPECT_EQ(survivor.sum().item<double>(), 3.0 * (1 << 18));
}

}  // namespace
}  // namespace autotrain
