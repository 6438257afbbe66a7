#include "setup/loader_start.h"

#include "data/datasets.h"
#include "support/images.h"
#include "support/run_workbench.h"
#include "support/support.h"

namespace autotrain {
namespace {

BatchPlan plan_with(double pass_samples_per_second, double load_seconds_per_sample) {
  BatchPlan plan;
  plan.micro_batch = 8;
  plan.search.probes = {{.micro_batch = 8, .pass_samples_per_second = 1, .load_seconds_per_sample = 1},
                        {.micro_batch = 8,
                         .pass_samples_per_second = pass_samples_per_second,
                         .load_seconds_per_sample = load_seconds_per_sample},
                        {.micro_batch = 16, .pass_samples_per_second = 7, .load_seconds_per_sample = 7},
                        {.micro_batch = 8, .outcome = ProbeOutcome::kRefused}};
  return plan;
}

TEST(LoaderStart, TakesWhatTheExecutedSizesTrialMeasured) {
  EXPECT_DOUBLE_EQ(rates_of(plan_with(1000, 2e-3)).threads(), 2);
  EXPECT_FALSE(rates_of({}).known());
}

// A CPU, which computes on its cores, gives half of them at the start.
TEST(LoaderStart, BeginsWithTheThreadsThatTheTrialsRatesAskFor) {
  const auto data = test::small_data(64);
  const auto bench = test::make_workbench(test::small_recipe(), test::small_task(), data);
  const auto begun = [&](const BatchPlan& plan, const LoaderRecipe& asked = {}) {
    bench->loader.workers = asked.workers.value_or(1);
    bench->most_workers = 12;
    start_loader(plan, asked, *bench);
    return bench->loader.workers;
  };
  EXPECT_EQ(begun(plan_with(1000, 1e-4)), 1);
  EXPECT_EQ(begun(plan_with(1000, 3e-3)), 4);
  EXPECT_EQ(begun(plan_with(1000, 3e-2)), 6);
  EXPECT_EQ(begun({}), 1) << "made before trials measured it";
  EXPECT_EQ(begun(plan_with(1000, 3e-2), {.workers = 2}), 2);
  EXPECT_EQ(begun(plan_with(1000, 3e-2), {.workers = 0}), 0);
}

TEST(LoaderStart, SaysWhatIsLackingAndWhatWouldHelp) {
  const auto vectors = test::small_data(64);
  const LoadingRates rates{.pass_samples_per_second = 4000, .load_seconds_per_sample = 6e-3};
  EXPECT_EQ(too_slow(rates, 24, false, vectors), "");
  EXPECT_EQ(too_slow({}, 1, false, vectors), "");
  EXPECT_EQ(
      too_slow(rates, 15, false, vectors),
      "data will be slower than the step: a sample takes 6 ms of a core, the passes want 24 cores, 15 are "
      "free: expect to wait 38 % of the time; what would help: more cores");
  const test::TemporaryFolder folder;
  folder.write("a/1.jpg", test::jpeg_file(test::gradient_image(9, 9, 3)));
  folder.write("b/2.jpg", test::jpeg_file(test::gradient_image(9, 9, 3)));
  const auto images = make_dataset(
      {Choice{"image_folder", {{"root", folder.path().string()}, {"size", std::vector<int64_t>{8, 8}}}}});
  EXPECT_TRUE(
      test::holds(too_slow(rates, 1, true, *images),
                  "1 is asked for: expect to wait 96 % of the time; what would help: "
                  "execution.loader.workers: auto, fewer pixels, execution.loader.preload: ram, files "
                  "stored decoded (npy), more cores"));
}

}  // namespace
}  // namespace autotrain
