#include "trainer/preloading.h"

#include "base/units.h"
#include "support/images.h"
#include "support/small_run.h"
#include "support/support.h"

namespace autotrain {
namespace {

struct Offer final : Preloadable {
  explicit Offer(int64_t ram, bool decoding = false, int64_t device = 0)
      : ram_(ram), decoding_(decoding), device_(device) {}
  int64_t ram_bytes() const override { return ram_; }
  bool spares_decoding() const override { return decoding_; }
  int64_t device_bytes() const override { return device_; }
  void preload(const PreloadWork&) override {}

  int64_t ram_;
  bool decoding_;
  int64_t device_;
};

constexpr PreloadCase kCpu{.budget_bytes = 800, .free_bytes = 10000};
constexpr PreloadCase kGpu{.on_gpu = true, .budget_bytes = 800, .free_bytes = 1600};

PreloadCase asking(PreloadCase c, Preload asked) {
  c.asked = asked;
  return c;
}

TEST(Preloading, AutoHoldsWhatSparesWorkAndTakesLittle) {
  EXPECT_EQ(choose_preload(kCpu, Offer(100, true)), Preload::kRam);
  EXPECT_EQ(choose_preload(kCpu, Offer(101, true)), Preload::kOff) << "more than an eighth of the budget";
  EXPECT_EQ(choose_preload(kCpu, Offer(100)), Preload::kOff) << "files that were read are in memory anyway";
  EXPECT_EQ(choose_preload(kCpu, Offer(0, true, 50)), Preload::kOff) << "they are there already";
  EXPECT_EQ(choose_preload(kGpu, Offer(0, false, 100)), Preload::kDevice);
  EXPECT_EQ(choose_preload(kGpu, Offer(200, true, 101)), Preload::kRam);
  EXPECT_EQ(choose_preload(kGpu, Offer(201, true, 101)), Preload::kOff);
  PreloadCase once = kGpu;
  once.read_again = false;
  EXPECT_EQ(choose_preload(once, Offer(10, true, 10)), Preload::kOff);
}

TEST(Preloading, WhatIsAskedForIsDoneOrRefused) {
  EXPECT_EQ(choose_preload(asking(kCpu, Preload::kOff), Offer(1, true)), Preload::kOff);
  EXPECT_EQ(choose_preload(asking(kCpu, Preload::kRam), Offer(800)), Preload::kRam);
  EXPECT_EQ(choose_preload(asking(kCpu, Preload::kDevice), Offer(800)), Preload::kRam)
      << "a CPU's own memory";
  EXPECT_EQ(choose_preload(asking(kGpu, Preload::kRam), Offer(1600)), Preload::kRam);
  EXPECT_EQ(choose_preload(asking(kGpu, Preload::kDevice), Offer(1, false, 800)), Preload::kDevice);
  const auto refused = [](PreloadCase c, const Offer& offer, ExitCode code) {
    EXPECT_EQ(test::expect_error(code, [&] { choose_preload(c, offer); }).where(),
              "execution.loader.preload");
  };
  refused(asking(kCpu, Preload::kRam), Offer(801), ExitCode::kDoesNotFit);
  refused(asking(kGpu, Preload::kRam), Offer(1601), ExitCode::kDoesNotFit);
  refused(asking(kGpu, Preload::kDevice), Offer(1, false, 801), ExitCode::kDoesNotFit);
  refused(asking(kGpu, Preload::kDevice), Offer(1), ExitCode::kBadRecipe);
}

}  // namespace
}  // namespace autotrain
