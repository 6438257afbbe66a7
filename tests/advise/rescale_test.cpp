#include "advise/rescale.h"

#include <gtest/gtest.h>

#include <cmath>

#include "autotrain/trainer.h"
#include "plan/planner.h"
#include "recipe/compare.h"
#include "state/catalog.h"
#include "support/support.h"

namespace autotrain {
namespace {

Recipe recipe_of(const std::string& optimizer, const std::string& rule) {
  const test::TemporaryFolder folder;
  return load_recipe(folder.write("r.yaml", "optimizer: " + optimizer + "\nbatch: {effective: 64, lr_rule: " +
                                                rule + "}\nstop: {updates: 100}\n"));
}

double rate_in_use(const Recipe& recipe) {
  return learning_rate_plan(recipe, *recipe.batch.effective).scaled;
}

Recipe to_batch(const Recipe& recipe, int64_t to) {
  return rescaled(recipe, {*recipe.batch.effective, to, rate_in_use(recipe)});
}

double parameter(const Recipe& recipe, const std::string& key) {
  return std::get<double>(recipe.optimizer.algorithm.parameters.at(key));
}

const RecipeLine* line_of(const std::vector<RecipeLine>& lines, const std::string& path) {
  const auto found = std::ranges::find(lines, path, &RecipeLine::path);
  return found == lines.end() ? nullptr : &*found;
}

TEST(Rescale, ToTheSameBatchChangesNothing) {
  for (const char* const rule : {"linear", "sqrt", "none"}) {
    const Recipe recipe = recipe_of("{name: adamw, lr: 0.001}", rule);
    EXPECT_EQ(to_batch(recipe, 64), recipe) << rule;
    EXPECT_TRUE(recipe_lines(recipe, {64, 64, 0.5}).empty()) << rule;
  }
}

TEST(Rescale, DoublingAndHalvingReturns) {
  for (const char* const optimizer :
       {"{name: adamw, lr: 0.001}", "{name: lamb, lr: 0.01}", "{name: lion, lr: 1e-4}"}) {
    const Recipe recipe =
        to_batch(to_batch(recipe_of(optimizer, "sqrt"), 128), 64);  // lengths are in samples now
    EXPECT_EQ(to_batch(to_batch(recipe, 128), 64), recipe) << optimizer;
    EXPECT_DOUBLE_EQ(rate_in_use(to_batch(to_batch(recipe, 2048), 64)), rate_in_use(recipe));
  }
  const Recipe other_rule = recipe_of("{name: adamw, lr: 0.001}", "linear");
  EXPECT_NEAR(rate_in_use(to_batch(to_batch(other_rule, 128), 64)), rate_in_use(other_rule), 1e-12);
}

TEST(Rescale, TheRateFollowsTheFoundedRuleOnce) {
  for (const char* const rule : {"linear", "sqrt", "none"}) {
    const Recipe adam = recipe_of("{name: adamw, lr: 0.001}", rule);
    EXPECT_NEAR(rate_in_use(to_batch(adam, 256)) / rate_in_use(adam), 2, 1e-9) << rule;
    const Recipe sgd = recipe_of("{name: sgd, lr: 0.1, momentum: 0.9}", rule);
    EXPECT_NEAR(rate_in_use(to_batch(sgd, 256)) / rate_in_use(sgd), 4, 1e-9) << rule;
  }
  const auto lines = recipe_lines(recipe_of("{name: sgd, lr: 0.1}", "linear"), {64, 256, 0.025});
  EXPECT_EQ(line_of(lines, "optimizer.lr"), nullptr) << "the rule of the recipe does it";
}

TEST(Rescale, TheSecondMomentKeepsItsHalfLifeInSamples) {
  const Recipe recipe = recipe_of("{name: adamw, lr: 0.001, beta2: 0.99, epsilon: 1e-8}", "sqrt");
  const Recipe large = to_batch(recipe, 256);
  EXPECT_NEAR(parameter(large, "beta2"), std::pow(0.99, 4), 1e-9);
  EXPECT_NEAR(parameter(large, "epsilon"), 5e-9, 1e-18);
  EXPECT_NEAR(second_moment_half_life(large, 256), second_moment_half_life(recipe, 64), 1e-3);
  EXPECT_EQ(second_moment_half_life(recipe_of("{name: sgd, lr: 1}", "linear"), 64), 0);
}

TEST(Rescale, WhatIsCountedInUpdatesKeepsItsSamples) {
  Recipe recipe = recipe_of("{name: sgd, lr: 0.1}", "linear");
  recipe.schedule.warmup = *Span::parse("10 updates");
  recipe.schedule.shape = {"step", {{"every", int64_t{40}}}};
  const Recipe large = to_batch(recipe, 256);
  EXPECT_EQ(large.schedule.warmup.text(), "640 samples");
  EXPECT_EQ(std::get<int64_t>(large.schedule.shape.parameters.at("every")), 10);
  EXPECT_EQ(large.stop.updates, std::nullopt);
  EXPECT_EQ(large.stop.samples, 6400);
}

TEST(Rescale, TheLinesAreARecipe) {
  const test::TemporaryFolder folder;
  const std::string base = folder
                               .write("base.yaml",
                                      "optimizer: {name: adamw, lr: 0.001}\nschedule: {warmup: 10 updates}\n"
                                      "batch: {effective: 64, lr_rule: none}\nstop: {updates: 100}\n")
                               .string();
  const Recipe recipe = load_recipe(base);
  const Rescaling change{64, 256, rate_in_use(recipe)};
  const std::string yaml = yaml_of(recipe_lines(recipe, change));
  const Recipe merged = load_recipe(folder.write("new.yaml", "extends: base.yaml\n" + yaml));
  EXPECT_EQ(merged, rescaled(recipe, change)) << yaml;
}

TEST(Rescale, ALimitBelowTheNewBatchRisesWithIt) {
  const test::TemporaryFolder folder;
  const Recipe recipe = load_recipe(folder.write(
      "base.yaml", "batch: {effective: 64, limits: {max_effective: 100}}\nstop: {updates: 100}\n"));
  const Rescaling change{64, 256, rate_in_use(recipe)};
  const std::string yaml = yaml_of(recipe_lines(recipe, change));
  EXPECT_TRUE(test::holds(yaml, "limits: {max_effective: 256}"));
  EXPECT_EQ(load_recipe(folder.write("new.yaml", "extends: base.yaml\n" + yaml)), rescaled(recipe, change))
      << yaml;
}

TEST(Rescale, AHalfLifeThatRecipesDoNotAllowIsTold) {
  const Recipe recipe = recipe_of("{name: adamw, lr: 0.001, beta2: 0.9999}", "sqrt");
  const Rescaling change{4096, 1, rate_in_use(recipe)};
  EXPECT_LE(parameter(rescaled(recipe, change), "beta2"), 0.999999);
  const auto remarks = remarks_on(recipe, change);
  EXPECT_TRUE(std::ranges::any_of(remarks, [](const std::string& r) { return r.starts_with("beta2"); }));
}

}  // namespace
}  // namespace autotrain
