// Whole runs over images with boxes whose samples are put together, mixed, moved and made smaller.
#include "autotrain/trainer.h"
#include "base/text.h"
#include "support/images.h"
#include "support/small_run.h"

namespace autotrain {
namespace {

using test::column;
using test::TemporaryFolder;

constexpr int64_t kSceneCount = 16, kSceneSide = 96;

void write_images(const TemporaryFolder& folder) {
  for (int64_t i = 0; i < kSceneCount; ++i) {
    const std::string name = cat(100 + i);
    folder.write(cat("images/", name, ".png"),
                 test::png_file(test::gradient_image(kSceneSide, kSceneSide, 3)));
    const double at = 0.2 + 0.6 * static_cast<double>(i) / kSceneCount;
    folder.write(cat("labels/", name, ".txt"), cat(i % 2, " ", at, " 0.5 0.3 0.4\n"));
  }
}

Recipe recipe_of(const TemporaryFolder& folder, int64_t micro_batch) {
  const std::string data = cat("{dataset: yolo, images: ", (folder / "images").string(),
                               ", labels: ", (folder / "labels").string(), ", classes: 2, size: [96, 96]}");
  return load_recipe(folder.write("recipe.yaml", cat(R"(
data:
  train: )",
                                                     data, R"(
  augment: {mosaic: 0.5, mix_up: 0.5, scale: 0.3, translate: 0.1, shear: 5, close_mosaic: 0.4, multi_scale: 0.7}
model: {name: yolo, size: p}
loss: {name: yolo}
optimizer: {name: sgd, lr: 0.001}
batch: {effective: 4}
stop: {updates: 8}
evaluation: {every: never}
report: {html: false, csv: false, tensorboard: false}
execution: {device: cpu, threads: 1, micro_batch: )",
                                                     micro_batch, ", search: {plan_cache: false}}\n")));
}

Summary fit_boxes(const Recipe& recipe, const std::filesystem::path& folder, TrainerOptions options = {}) {
  options.output = folder;
  return Trainer::from_recipe(recipe, std::move(options)).fit();
}

TEST(AugmentedBoxes, AStoppedAndResumedRunEqualsTheUninterruptedOneForAnyWorkers) {
  const TemporaryFolder folder;
  write_images(folder);
  Recipe recipe = recipe_of(folder, 2);
  fit_boxes(recipe, folder / "straight");
  for (const int64_t workers : {0, 3}) {
    recipe.execution.loader.workers = workers;
    const auto path = folder / std::to_string(workers);
    Trainer stopped = Trainer::from_recipe(recipe, {.output = path});
    stopped.on_update([](const UpdateRecord& u) { return u.update < 3 ? Flow::kContinue : Flow::kStop; });
    EXPECT_EQ(stopped.fit().updates, 3);
    fit_boxes(recipe, path, {.resume = true});
    EXPECT_EQ(test::model_digest(path, 8), test::model_digest(folder / "straight", 8)) << workers;
  }
}

// Positions reach the data of a run.
TEST(AugmentedBoxes, ARunThatIsClosedFromItsStartIsOneWithoutMosaics) {
  const TemporaryFolder folder;
  write_images(folder);
  const auto digest_of = [&](const std::string& name, double close, bool open) {
    Recipe recipe = recipe_of(folder, 2);
    recipe.data.augment.close_mosaic = close;
    if (!open) recipe.data.augment.mosaic = recipe.data.augment.mix_up = 0;
    fit_boxes(recipe, folder / name);
    return test::model_digest(folder / name, 8);
  };
  const size_t plain = digest_of("plain", 0, false);
  EXPECT_EQ(digest_of("closed", 1, true), plain);
  EXPECT_NE(digest_of("half", 0.5, true), plain);
  EXPECT_NE(digest_of("open", 0, true), digest_of("half again", 0.5, true));
}

// Which boxes are assigned to which points jumps by roundings that grow with each update. So at a rate of
// almost nothing all losses are held, which are those of the same images, and at a usual one that after the
// first update.
TEST(AugmentedBoxes, NoCutChangesAnUpdateButForRounding) {
  const TemporaryFolder folder;
  write_images(folder);
  for (const bool still : {true, false}) {
    const auto losses_of = [&](int64_t micro_batch) {
      Recipe recipe = recipe_of(folder, micro_batch);
      if (still) recipe.optimizer.lr = 1e-9;
      const auto path = folder / (std::to_string(micro_batch) + (still ? "-still" : ""));
      fit_boxes(recipe, path);
      return column(path, "loss");
    };
    const auto losses = losses_of(4);
    ASSERT_EQ(losses.size(), 8u);
    for (const int64_t micro_batch : {1, 3}) {
      const auto cut = losses_of(micro_batch);
      for (size_t i = 0; i < (still ? losses.size() : 2); ++i)
        EXPECT_NEAR(cut[i] / losses[i], 1, 1e-3)
            << micro_batch << " update " << i << (still ? ", still" : "");
    }
  }
}

}  // namespace
}  // namespace autotrain
