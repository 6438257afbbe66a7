#include "study/sharpness.h"

#include <cmath>

#include "autotrain/trainer.h"
#include "study/evaluated_checkpoint.h"
#include "support/support.h"

namespace autotrain {
namespace {

constexpr const char* kVectors = R"(
data:
  train: {dataset: synthetic, kind: vectors, samples: 512}
model: {name: mlp, depth: 1, width: 8}
batch: {effective: 64}
stop: {epochs: 2}
execution: {precision: fp32, memory: {budget: 64MiB}, micro_batch: 64}
)";

constexpr const char* kTokens = R"(
data:
  train: {dataset: synthetic, kind: tokens, samples: 64, shape: [12], classes: 16}
model: {name: transformer, layers: 1, width: 16, heads: 2, dropout: 0.5}
batch: {effective: 16}
stop: {epochs: 1}
execution: {precision: fp32, memory: {budget: 256MiB}, micro_batch: 8}
)";

// Of 3 × 32 × 32, with a model from a file.
std::string images(const std::string& model) {
  return R"(
data:
  train: {dataset: synthetic, kind: images, samples: 32, shape: [3, 32, 32], classes: 10}
model: {)" +
         model + R"(}
batch: {effective: 16}
stop: {epochs: 1}
execution: {precision: fp32, memory: {budget: 512MiB}, micro_batch: 16}
)";
}

// The sharpness of a run's final weights.
Sharpness sharpness_after(const test::TemporaryFolder& folder, const std::string& text,
                          const std::string& name, int64_t micro_batch = 0) {
  const Recipe recipe = load_recipe(folder.write("recipe.yaml", text));
  Trainer trainer = Trainer::from_recipe(recipe, {.output = folder / name});
  const int64_t update = trainer.fit().updates;
  BatchPlan plan = trainer.plan();
  if (micro_batch > 0) plan.micro_batch = micro_batch;
  return measure_sharpness(on_training_set(recipe, plan, folder / name, update));
}

TEST(Sharpness, OfARunIsFoundInAnyMicroBatches) {
  const test::TemporaryFolder folder;
  const Sharpness s = sharpness_after(folder, kVectors, "a");
  EXPECT_EQ(s.unavailable, "");
  EXPECT_EQ(s.samples, 512);
  EXPECT_GT(s.eigenvalue, 0);
  EXPECT_LE(s.eigenvalue_error, 0.05 * s.eigenvalue);
  EXPECT_LE(s.products, 30);
  ASSERT_EQ(s.rises.size(), kSharpnessSteps.size());
  EXPECT_GE(s.rises[0].size(), 5u);
  EXPECT_GT(std::abs(s.rises[2][0]), std::abs(s.rises[0][0]) / 100);
  EXPECT_EQ(sharpness_to_json(sharpness_from_json(sharpness_to_json(s))), sharpness_to_json(s));
  const Sharpness cut = sharpness_after(folder, kVectors, "b", 28);
  EXPECT_NEAR(cut.loss, s.loss, 1e-4 * s.loss);
  EXPECT_NEAR(cut.eigenvalue, s.eigenvalue, 1e-2 * s.eigenvalue);
}

TEST(Sharpness, OfATransformerWithDropoutIsThatOfEvaluationMode) {
  const test::TemporaryFolder folder;
  const Sharpness a = sharpness_after(folder, kTokens, "a"), b = sharpness_after(folder, kTokens, "b");
  EXPECT_EQ(a.unavailable, "");
  EXPECT_GT(a.eigenvalue, 0);
  EXPECT_NEAR(b.loss, a.loss, 1e-5 * a.loss) << "nothing is drawn";
}

TEST(Sharpness, AnExportedModelHasNoneAndSaysWhyAScriptedOneHas) {
  const test::TemporaryFolder folder;
  const Sharpness exported = sharpness_after(
      folder, images("name: exported, file: " AUTOTRAIN_FIXTURES "/exported_small.autotrain"), "exported");
  EXPECT_TRUE(test::holds(exported.unavailable, "autograd does not see")) << exported.unavailable;
  const Sharpness scripted = sharpness_after(
      folder, images("name: torchscript, file: " AUTOTRAIN_FIXTURES "/scripted_small.pt"), "scripted");
  EXPECT_EQ(scripted.unavailable, "");
  EXPECT_GT(scripted.eigenvalue, 0);
}

TEST(Sharpness, WhatIsUnavailableSaysWhyAndHasNoFigures) {
  const Sharpness none{.unavailable = "it is not"};
  for (const SharpnessFigure& figure : sharpness_figures()) EXPECT_TRUE(std::isnan(figure.of(none)));
  EXPECT_EQ(sharpness_from_json(sharpness_to_json(none)).unavailable, "it is not");
}

}  // namespace
}  // namespace autotrain
