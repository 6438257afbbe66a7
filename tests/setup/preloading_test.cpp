#include "setup/preloading.h"

#include "base/units.h"
#include "setup/assembly.h"
#include "support/images.h"
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
  EXPECT_EQ(choose_preload(kCpu, Offer(100, true)).where, Preload::kRam);
  EXPECT_EQ(choose_preload(kCpu, Offer(101, true)).where, Preload::kOff)
      << "more than an eighth of the budget";
  EXPECT_EQ(choose_preload(kCpu, Offer(100)).where, Preload::kOff)
      << "files that were read are in memory anyway";
  EXPECT_EQ(choose_preload(kCpu, Offer(0, true, 50)).where, Preload::kOff) << "they are there already";
  EXPECT_EQ(choose_preload(kGpu, Offer(0, false, 100)).where, Preload::kDevice);
  EXPECT_EQ(choose_preload(kGpu, Offer(200, true, 101)).where, Preload::kRam);
  EXPECT_EQ(choose_preload(kGpu, Offer(201, true, 101)).where, Preload::kOff);
  PreloadCase once = kGpu;
  once.read_again = false;
  EXPECT_EQ(choose_preload(once, Offer(10, true, 10)).where, Preload::kOff);
}

TEST(Preloading, WhatIsAskedForIsDoneOrRefused) {
  EXPECT_EQ(choose_preload(asking(kCpu, Preload::kOff), Offer(1, true)).where, Preload::kOff);
  EXPECT_EQ(choose_preload(asking(kCpu, Preload::kRam), Offer(800)).where, Preload::kRam);
  EXPECT_EQ(choose_preload(asking(kCpu, Preload::kDevice), Offer(800)).where, Preload::kRam)
      << "a CPU's own memory";
  EXPECT_EQ(choose_preload(asking(kGpu, Preload::kRam), Offer(1600)).where, Preload::kRam);
  EXPECT_EQ(choose_preload(asking(kGpu, Preload::kDevice), Offer(1, false, 800)).where, Preload::kDevice);
  const auto refused = [](PreloadCase c, const Offer& offer, ExitCode code) {
    EXPECT_EQ(test::expect_error(code, [&] { choose_preload(c, offer); }).where(),
              "execution.loader.preload");
  };
  refused(asking(kCpu, Preload::kRam), Offer(801), ExitCode::kDoesNotFit);
  refused(asking(kGpu, Preload::kRam), Offer(1601), ExitCode::kDoesNotFit);
  refused(asking(kGpu, Preload::kDevice), Offer(1, false, 801), ExitCode::kDoesNotFit);
  refused(asking(kGpu, Preload::kDevice), Offer(1), ExitCode::kBadRecipe);
}

Recipe stopping(StopRecipe stop) {
  Recipe recipe;
  recipe.batch.effective = 10;
  recipe.stop = stop;
  return recipe;
}

TEST(Preloading, WhetherSamplesAreReadAgainFollowsFromTheFirstStop) {
  EXPECT_TRUE(reads_again(stopping({.epochs = 1.5}), 100));
  EXPECT_FALSE(reads_again(stopping({.epochs = 1}), 100));
  EXPECT_FALSE(reads_again(stopping({.epochs = 5, .updates = 10}), 100));
  EXPECT_TRUE(reads_again(stopping({.epochs = 5, .updates = 11}), 100));
  EXPECT_FALSE(reads_again(stopping({.samples = 100}), 100));
  EXPECT_TRUE(reads_again(stopping({.minutes = 1}), 100)) << "nobody knows";
  Recipe endless = stopping({.updates = int64_t{1} << 53});
  endless.batch.effective = int64_t{1} << 20;
  EXPECT_TRUE(reads_again(endless, 100));
}

// Two sets that fit alone and not together.
TEST(Preloading, BothDataSetsShareTheBudget) {
  const test::TemporaryFolder folder;
  for (const char* const name : {"a/1.png", "a/2.png", "b/3.png", "b/4.png"}) {
    folder.write(name, test::png_file(test::plain_image(64, 64, {1, 2, 3})));
  }
  const Choice images{"image_folder",
                      {{"root", folder.path().string()}, {"size", std::vector<int64_t>{1024, 1024}}}};
  Recipe recipe;
  recipe.data.train = images;
  recipe.stop.epochs = 3;
  recipe.execution.device = "cpu";
  recipe.execution.loader.preload = Preload::kRam;
  recipe.execution.memory.budget = *Budget::parse("20MiB");  // each set takes 12
  const auto device = open_run_device(recipe);
  EXPECT_EQ(load_data(recipe, *device).train->size(), 4);
  recipe.data.validation = images;
  const Error error = test::expect_error(ExitCode::kDoesNotFit, [&] { load_data(recipe, *device); });
  EXPECT_EQ(error.where(), "execution.loader.preload");
}

}  // namespace
}  // namespace autotrain
