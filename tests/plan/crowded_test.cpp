// Detection sets of which some images hold many more boxes than others.
#include "data/crowded.h"

#include "autotrain/trainer.h"
#include "base/text.h"
#include "data/datasets.h"
#include "model/losses.h"
#include "model/models.h"
#include "plan/probe.h"
#include "support/images.h"
#include "support/run_workbench.h"
#include "support/samples.h"
#include "support/support.h"

namespace autotrain {
namespace {

using test::TemporaryFolder;

constexpr int64_t kImages = 24, kSide = 32, kMany = 300;

std::string boxes(int64_t count) {
  std::string lines;
  for (int64_t i = 0; i < count; ++i)
    lines += cat(i % 2, " ", 0.1 + 0.8 * static_cast<double>(i % 17) / 17, " ",
                 0.1 + 0.8 * static_cast<double>(i / 17) / 18, " 0.15 0.15\n");
  return lines;
}

// One box in every image but those from `first` on, which hold many.
void write_set(const TemporaryFolder& folder, const std::string& name, int64_t first) {
  for (int64_t i = 0; i < kImages; ++i) {
    const std::string file = cat(name, "/images/", 100 + i);
    folder.write(file + ".png", test::png_file(test::gradient_image(kSide, kSide, 3)));
    folder.write(cat(name, "/labels/", 100 + i, ".txt"), boxes(i < first ? 1 : kMany));
  }
}

Choice choice_of(const TemporaryFolder& folder, const std::string& name) {
  return {"yolo",
          {{"images", (folder / name / "images").string()},
           {"size", std::vector<int64_t>{kSide, kSide}},
           {"classes", int64_t{2}}}};
}

std::unique_ptr<Task> small_yolo() {
  torch::manual_seed(1);
  return supervised(make_model({"yolo", {{"size", std::string("p")}}}, {{3, kSide, kSide}, 2, 0}),
                    make_loss({"yolo", {}}));
}

TEST(Crowded, ABatchIsFilledUpToTheMostBoxesOfAnImageAndOfAMosaicToFourTimesAsMany) {
  const TemporaryFolder folder;
  write_set(folder, "few", kImages - 1);
  const auto plain = make_dataset({choice_of(folder, "few")});
  const auto mosaic = make_dataset({choice_of(folder, "few"), {.mosaic = 0.5}});
  EXPECT_EQ(crowded(*plain)->most_objects(), kMany);
  EXPECT_EQ(crowded(*mosaic)->most_objects(), 4 * kMany);
  const FullestBatches fullest(*plain);
  const Batch batch = test::samples(*plain, {0, 1}), full = test::samples(fullest, {0, 1});
  ASSERT_EQ(full.targets.sizes(), (std::vector<int64_t>{2, kMany, 5}));
  EXPECT_TRUE(full.targets.narrow(1, 0, 1).equal(batch.targets)) << "its own boxes stay";
  EXPECT_TRUE(full.targets.narrow(1, 1, kMany - 1).select(2, 0).eq(-1).all().item<bool>());
  EXPECT_TRUE(full.inputs.equal(batch.inputs));
  EXPECT_EQ(crowded(test::small_data(4)), nullptr);
}

// The one crowded image is the last; a trial begins with the first ones.
TEST(Crowded, ATrialTakesAsMuchAsIfAllImagesWereTheMostCrowdedOne) {
  const TemporaryFolder folder;
  write_set(folder, "none", kImages);
  write_set(folder, "one", kImages - 1);
  write_set(folder, "all", 0);
  Recipe recipe = test::small_recipe();
  recipe.data.shuffle = false;
  recipe.execution.memory.budget = *Budget::parse("512MiB");
  recipe.execution.loader.workers = 0;
  const auto peak = [&](const std::string& train, const std::string& validation) {
    const auto data = make_dataset({choice_of(folder, train)}),
               evaluated = make_dataset({choice_of(folder, validation)});
    const auto bench = test::make_workbench(recipe, small_yolo(), *data, evaluated.get());
    return Probe(*bench, 0.9)
        .run({.micro_batch = 8, .window_samples = 8, .evaluation_micro_batch = 8},
             [](const ProbeRecord&) { return true; })
        .allocated_bytes;
  };
  const int64_t typical = peak("none", "none"), most = peak("all", "none");
  const auto nearly = static_cast<double>(most) / 100;
  EXPECT_GT(most, typical + typical / 10);
  EXPECT_NEAR(static_cast<double>(peak("one", "none")), static_cast<double>(most), nearly);
  EXPECT_NEAR(static_cast<double>(peak("none", "one")), static_cast<double>(peak("none", "all")), nearly)
      << "of an evaluation, too";
}

// Whole runs at a size that is searched.
class CrowdedRun : public testing::TestWithParam<double> {};

TEST_P(CrowdedRun, SurvivesAHundredUpdatesAtTheSizeThatTheSearchFound) {
  const TemporaryFolder folder;
  write_set(folder, "few", kImages - 2);
  const std::string set = cat("{dataset: yolo, images: ", (folder / "few" / "images").string(),
                              ", classes: 2, size: [32, 32]}\n");
  Recipe recipe = load_recipe(folder.write("crowded.yaml", cat("data:\n  train: ", set, "  validation: ", set,
                                                               "  augment: {mosaic: ", GetParam(), "}\n", R"(
model: {name: yolo, size: p}
loss: {name: yolo}
optimizer: {name: adamw, lr: 0.001}
batch: {effective: 24}
stop: {updates: 100}
evaluation: {every: 50 updates}
execution: {precision: fp32, threads: 1, memory: {budget: 48MiB}, search: {plan_cache: false}}
report: {html: false, csv: false, tensorboard: false}
)")));
  auto trainer = Trainer::from_recipe(recipe, {.output = folder / "run"});
  const BatchPlan plan = trainer.plan();
  EXPECT_TRUE(plan.confirmed);
  EXPECT_GT(plan.window, 1) << "the budget bounds the size";
  const Summary summary = trainer.fit();
  EXPECT_EQ(summary.updates, 100);
  EXPECT_EQ(summary.oom_recoveries, 0);
  EXPECT_LE(summary.peak_bytes, plan.budget_bytes);
}

INSTANTIATE_TEST_SUITE_P(Mosaics, CrowdedRun, testing::Values(0.0, 1.0));

}  // namespace
}  // namespace autotrain
