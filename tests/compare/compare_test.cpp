#include "compare/compare.h"

#include <torch/nn/utils/convert_parameters.h>

#include "autotrain/trainer.h"
#include "compare/compare_page.h"
#include "compare/converge.h"
#include "support/support.h"

namespace autotrain {
namespace {

constexpr const char* kRecipe = R"(
data:
  train: {dataset: synthetic, kind: vectors, samples: 512}
  validation: {dataset: synthetic, kind: vectors, samples: 128, first: 512}
model: {name: mlp, depth: 1, width: 8}
batch: {effective: 64}
stop: {epochs: 2}
execution: {precision: fp32, memory: {budget: 64MiB}, micro_batch: 64}
)";

NamedRecipe named(const test::TemporaryFolder& folder, const std::string& label,
                  const std::vector<std::string>& overrides) {
  return {label, load_recipe(folder.write("recipe.yaml", kRecipe), overrides)};
}

// First in this file: it starts processes, which may not follow any computing of this one.
TEST(Compare, TrainsEveryRecipeWithEverySeedAndGoesOnWithMore) {
  const test::TemporaryFolder folder;
  std::vector<std::pair<std::string, bool>> seen;
  CompareOptions options{.recipes = {named(folder, "slow", {"optimizer.lr=0.0001"}),
                                     named(folder, "twin", {"optimizer.lr=0.0001"}),
                                     named(folder, "broken", {"model.weights=/nowhere"})},
                         .seeds = 2,
                         .figure = "accuracy",
                         .training_set = true,
                         .folder = folder / "study"};
  compare(options);
  options.seeds = 3;
  options.on_outcome = [&](const RunOutcome& run, bool kept) {
    seen.emplace_back(run.recipe + std::to_string(run.seed), kept);
  };
  const Comparison c = compare(options);
  const std::vector<std::pair<std::string, bool>> expected = {
      {"slow1", true},    {"twin1", true},    {"twin2", true},  {"slow2", true}, {"broken1", false},
      {"broken2", false}, {"broken3", false}, {"slow3", false}, {"twin3", false}};
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(c.recipes[2].failed, 3);
  // The same recipe under another label: the same weights, the same order of samples, the same bits.
  EXPECT_EQ(c.recipes[0].final.count, 3);
  EXPECT_EQ(c.recipes[0].final.mean, c.recipes[1].final.mean);
  EXPECT_GT(c.recipes[0].final.deviation, 0);  // but not for another seed
  EXPECT_EQ(c.recipes[0].gaps.at("loss").count, 3);
  EXPECT_EQ(c.samples, 1024);
  EXPECT_TRUE(std::filesystem::exists(folder / "study" / "runs" / "slow-seed3" / "summary.json"));
  EXPECT_EQ(comparison_to_json(read_comparison(folder / "study")), comparison_to_json(c));
}

TEST(Compare, LabelsThatDifferInNoLetterHaveFoldersOfTheirOwn) {
  const test::TemporaryFolder folder;
  const Comparison c = compare({.recipes = {named(folder, "a b", {}), named(folder, "a-b", {}),
                                            named(folder, "a/b", {"optimizer.lr=0.1"})},
                                .seeds = 1,
                                .folder = folder / "s"});
  EXPECT_EQ(c.recipes[0].final.mean, c.recipes[1].final.mean);
  EXPECT_NE(c.recipes[0].final.mean, c.recipes[2].final.mean);
  for (const char* const name : {"a-b-seed1", "a-b-2-seed1", "a-b-3-seed1"})
    EXPECT_TRUE(std::filesystem::exists(folder / "s" / "runs" / name / "summary.json")) << name;
}

TEST(Compare, ATargetThatIsNotMeasuredIsNamedBeforeAnythingIsTrained) {
  const test::TemporaryFolder folder;
  const CompareOptions options{.recipes = {named(folder, "a", {})},
                               .figure = "accuracy",
                               .target = Target{.figure = "top55", .value = 1},
                               .folder = folder / "s"};
  const Error error = test::expect_error(ExitCode::kUsage, [&] { compare(options); });
  EXPECT_TRUE(test::holds(error.what(), "top55"));
  EXPECT_FALSE(std::filesystem::exists(folder / "s" / "runs"));
}

TEST(Compare, AFigureThatIsNotMeasuredIsNamedBeforeAnythingIsTrained) {
  const test::TemporaryFolder folder;
  const CompareOptions options{
      .recipes = {named(folder, "a", {})}, .figure = "acuracy", .folder = folder / "s"};
  const Error error = test::expect_error(ExitCode::kUsage, [&] { compare(options); });
  EXPECT_TRUE(test::holds(error.what(), "accuracy"));
  EXPECT_FALSE(std::filesystem::exists(folder / "s" / "runs"));
}

TEST(Compare, ATargetThatAFractionNeverReachesIsRefused) {
  const test::TemporaryFolder folder;
  const CompareOptions options{.recipes = {named(folder, "a", {})},
                               .target = Target{.figure = "accuracy", .value = 80},
                               .folder = folder / "s"};
  const Error error = test::expect_error(ExitCode::kUsage, [&] { compare(options); });
  EXPECT_TRUE(test::holds(error.what(), "accuracy=0.8"));
  EXPECT_FALSE(std::filesystem::exists(folder / "s" / "runs")) << "known before anything is trained";
}

TEST(Compare, ARecipeWithoutValidationIsRefused) {
  const test::TemporaryFolder folder;
  const CompareOptions options{.recipes = {named(folder, "a", {"data.validation=null"})},
                               .folder = folder / "s"};
  test::expect_error(ExitCode::kBadRecipe, [&] { compare(options); });
}

TEST(Compare, WhatCannotBeComparedIsRefusedBeforeAnythingIsTrained) {
  const test::TemporaryFolder folder;
  const auto refused = [&](std::vector<NamedRecipe> recipes) {
    const CompareOptions options{.recipes = std::move(recipes), .folder = folder / "s"};
    EXPECT_THROW(compare(options), Error);
    return !std::filesystem::exists(folder / "s");
  };
  EXPECT_TRUE(refused({named(folder, "a", {"evaluation.every=1 minutes"})}));
  EXPECT_TRUE(refused({named(folder, "a", {}), named(folder, "a", {"optimizer.lr=0.1"})}));
}

TEST(Compare, OnlyKeysThatDifferAreNamed) {
  const test::TemporaryFolder folder;
  const auto keys = differing_keys({named(folder, "a", {"name=x", "seed=5"}),
                                    named(folder, "b", {"optimizer.name=sgd", "optimizer.momentum=0.9"})});
  std::map<std::string, std::vector<std::string>> found;
  for (const DifferingKey& key : keys) found[key.path] = key.values;
  EXPECT_EQ(found.at("optimizer.name"), (std::vector<std::string>{"adamw", "sgd"}));
  EXPECT_EQ(found.at("optimizer.momentum"), (std::vector<std::string>{"absent", "0.9"}));
  EXPECT_FALSE(found.contains("name") || found.contains("seed") || found.contains("model.width"));
}

TEST(Compare, WarnsOfDataAndEvaluationsThatAreNotTheSame) {
  const test::TemporaryFolder folder;
  const auto warnings_for = [&](const std::string& setting) {
    return unfair_because(differing_keys({named(folder, "a", {}), named(folder, "b", {setting})}));
  };
  for (const char* setting :
       {"data.train.samples=400", "data.validation.noise=0.1", "stop.epochs=3", "evaluation.every=2 updates",
        "loss.label_smoothing=0.1", "model.weights=/a.safetensors"}) {
    const auto warnings = warnings_for(setting);
    ASSERT_EQ(warnings.size(), 1u) << setting;
    EXPECT_TRUE(test::holds(warnings[0], std::string(setting).substr(0, std::string(setting).find('='))));
  }
  EXPECT_TRUE(warnings_for("optimizer.lr=0.5").empty());
}

TEST(Compare, ConvergenceIsEverySizeWithEveryRuleTestedAtEachSize) {
  const test::TemporaryFolder folder;
  const auto file = folder.write("recipe.yaml", kRecipe);
  const CompareOptions c = convergence({.config = file, .batches = {"64", "256"}, .rules = {}});
  ASSERT_EQ(c.recipes.size(), 4u);
  EXPECT_EQ(c.recipes[3].label, "E256-none");
  EXPECT_EQ(c.recipes[2].recipe.batch.effective, 256);
  EXPECT_EQ(c.recipes[2].recipe.batch.lr_rule, "linear");
  EXPECT_EQ(c.pairs, (std::vector<std::pair<size_t, size_t>>{{0, 1}, {2, 3}}));
  test::expect_error(ExitCode::kBadRecipe, [&] {
    convergence({.config = file, .overrides = {"stop.updates=5"}, .batches = {"64"}, .rules = {}});
  });
}

TEST(Compare, InitialWeightsDependOnTheSeedAndTheModelOnly) {
  const test::TemporaryFolder folder;
  const auto first_weights = [&](const std::vector<std::string>& overrides) {
    Trainer trainer = Trainer::from_recipe(named(folder, "a", overrides).recipe, {.write_files = false});
    return torch::nn::utils::parameters_to_vector(trainer.module().parameters());
  };
  const torch::Tensor weights = first_weights({});
  for (const std::vector<std::string>& executed : {std::vector<std::string>{"optimizer.name=sgd"},
                                                   {"execution.precision=bf16"},
                                                   {"batch.effective=256", "execution.micro_batch=32"},
                                                   {"loss.label_smoothing=0.1"},
                                                   {"data.train.samples=300"}}) {
    EXPECT_TRUE(first_weights(executed).equal(weights)) << executed[0];
  }
  EXPECT_FALSE(first_weights({"seed=2"}).equal(weights));
}

}  // namespace
}  // namespace autotrain
