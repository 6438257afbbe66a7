// execution.recompute in whole runs.
#include "autotrain/trainer.h"
#include "support/support.h"

namespace autotrain {
namespace {

Recipe recipe_of(const std::string& execution, const std::string& model) {
  const test::TemporaryFolder folder;
  return load_recipe(folder.write("recipe.yaml", R"(
data:
  train: {dataset: synthetic, kind: images, samples: 4096, shape: [3, 32, 32], classes: 10}
model: )" + model + R"(
optimizer: {name: adamw, lr: 0.001}
batch: {effective: 4096}
stop: {updates: 3}
execution: {precision: fp32, search: {plan_cache: false}, )" +
                                                     execution + "}\n"));
}

const std::string kExported = "{name: exported, file: " AUTOTRAIN_FIXTURES "/exported_small.autotrain}";

std::string weights_after(const Recipe& recipe) {
  const test::TemporaryFolder folder;
  Trainer::from_recipe(recipe, {.output = folder / "run"}).fit();
  return test::slurp(folder / "run" / "checkpoints" / "update-3" / "model.safetensors");
}

TEST(Recompute, ChangesNoBitOfARun) {
  const std::string typed = "micro_batch: 256, memory: {budget: 1GiB}, recompute: ";
  const std::string kept = weights_after(recipe_of(typed + "off", kExported));
  EXPECT_TRUE(weights_after(recipe_of(typed + "on", kExported)) == kept);
}

TEST(Recompute, IsRefusedByNameWhereAModelCannot) {
  const Recipe recipe = recipe_of("memory: {budget: 1GiB}, recompute: on", "{name: cnn}");
  const Error error = test::expect_error(
      ExitCode::kBadRecipe, [&] { Trainer::from_recipe(recipe, {.write_files = false}).plan(); });
  EXPECT_EQ(error.where(), "execution.recompute");
}

}  // namespace
}  // namespace autotrain
