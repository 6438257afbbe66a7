// Detection sets of which some images hold many more boxes than others.
#include "data/crowded.h"

#include <set>

#include "autotrain/task.h"
#include "base/text.h"
#include "data/datasets.h"
#include "model/losses.h"
#include "model/models.h"
#include "plan/probe.h"
#include "support/images.h"
#include "support/one_thread.h"
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

TEST(Crowded, ABatchIsFilledUpToTheMostBoxesOfAnImageAndOfAMosaicToFourTimesAsMany) {
  const TemporaryFolder folder;
  write_set(folder, "few", kImages - 1);
  const auto plain = make_dataset({choice_of(folder, "few")});
  const auto mosaic = make_dataset({choice_of(folder, "few"), {.mosaic = 0.5}});
  EXPECT_EQ(crowded(*plain)->most_objects(), kMany);
  EXPECT_EQ(crowded(*mosaic)->most_objects(), 4 * kMany);
  const auto blended = make_dataset({choice_of(folder, "few"), {.mosaic = 0.5, .mix_up = 0.1}});
  EXPECT_EQ(crowded(*blended)->most_objects(), 8 * kMany);
  const FullestBatches fullest(*plain);
  const Batch batch = test::samples(*plain, {0, 1}), full = test::samples(fullest, {0, 1});
  ASSERT_EQ(full.targets.sizes(), (std::vector<int64_t>{2, kMany, 5}));
  EXPECT_TRUE(full.targets.narrow(1, 0, 1).equal(batch.targets)) << "its own boxes stay";
  EXPECT_TRUE(full.targets.narrow(1, 1, kMany - 1).select(2, 0).eq(-1).all().item<bool>());
  EXPECT_TRUE(full.inputs.equal(batch.inputs));
  EXPECT_EQ(crowded(test::small_data(4)), nullptr);
}

// The one crowded image is the last; a trial begins with the first ones.
TEST(Crowded, EveryBatchOfATrialAndOfItsEvaluationHasTheMostBoxesOfItsSet) {
  const test::OneThread one_thread;
  const TemporaryFolder folder;
  write_set(folder, "none", kImages);
  write_set(folder, "one", kImages - 1);
  Recipe recipe = test::small_recipe();
  recipe.data.shuffle = false;
  recipe.execution.threads = 1;
  const auto seen = [&](const std::string& train, const std::string& validation) {
    std::set<int64_t> boxes_of_batches;
    const Loss yolo = make_loss({"yolo", {}});
    const auto watched = [&, yolo](const torch::Tensor& prediction, const torch::Tensor& target) {
      boxes_of_batches.insert(target.size(1));
      return yolo.terms(prediction, target);
    };
    torch::manual_seed(1);
    const auto data = make_dataset({choice_of(folder, train)}),
               evaluated = make_dataset({choice_of(folder, validation)});
    const auto bench = test::make_workbench(
        recipe,
        supervised(make_model({"yolo", {{"size", std::string("p")}}}, {{3, kSide, kSide}, 2, 0}),
                   {watched, {}}),
        *data, evaluated.get());
    boxes_of_batches.clear();
    Probe(*bench, 0.9)
        .run({.micro_batch = 4, .window_samples = 4, .evaluation_micro_batch = 4},
             [](const ProbeRecord&) { return true; });
    return boxes_of_batches;
  };
  EXPECT_EQ(seen("one", "none"), (std::set<int64_t>{1, kMany}));
  EXPECT_EQ(seen("none", "one"), (std::set<int64_t>{1, kMany}));
}

}  // namespace
}  // namespace autotrain
