#include "compare/compare.h"

#include <torch/nn/utils/convert_parameters.h>

#include <set>

#include "autotrain/trainer.h"
#include "base/text.h"
#include "compare/compare_page.h"
#include "compare/converge.h"
#include "compare/fairness.h"
#include "compare/finished_runs.h"
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
  EXPECT_EQ(read_comparison(folder / "study" / "former-1").terms.seeds.size(), 2u)
      << "the report of two seeds";
  EXPECT_FALSE(std::filesystem::exists(folder / "study" / "former-2"));
  EXPECT_EQ(c.terms.looks, std::vector<int64_t>{2}) << "its verdicts were seen";
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

TEST(Compare, RunsThatAreThereSayWhatTheStudySaidThatMadeThem) {
  const test::TemporaryFolder folder;
  const CompareOptions options{.recipes = {named(folder, "slow", {"optimizer.lr=0.0001", "name=slow"}),
                                           named(folder, "fast", {"optimizer.lr=0.01", "name=fast"})},
                               .seeds = 3,
                               .figure = "accuracy",
                               .folder = folder / "study"};
  const Comparison study = compare(options);
  const Comparison found = compare_finished_runs({.folders = {folder / "study"}, .figure = "accuracy"});
  EXPECT_EQ(found.terms.recipes, (std::vector<std::string>{"fast", "slow"}));
  ASSERT_EQ(found.differences.size(), study.differences.size());
  EXPECT_DOUBLE_EQ(found.differences[0].p, study.differences[0].p);
  EXPECT_EQ(found.recipes[1].final.mean, study.recipes[0].final.mean);

  const auto run = folder / "study" / "runs" / "slow-seed1";
  test::expect_error(ExitCode::kUsage, [&] { compare_finished_runs({.folders = {run, run}}); });
  test::expect_error(ExitCode::kUsage,
                     [&] { compare_finished_runs({.folders = {run}, .figure = "acuracy"}); });
  test::expect_error(ExitCode::kMissingFile,
                     [&] { compare_finished_runs({.folders = {run / "checkpoints"}}); });
  std::filesystem::remove(run / "summary.json");
  const Comparison cut = compare_finished_runs({.folders = {folder / "study"}, .figure = "accuracy"});
  EXPECT_EQ(cut.differences[0].verdict, Difference::Verdict::kRunsMissing) << "one has not ended";
  EXPECT_EQ(cut.recipes[1].failed, 0) << "nor failed";
  EXPECT_EQ(cut.recipes[1].unfinished, 1);
  EXPECT_FALSE(cut.best.recipe);
}

TEST(Compare, RunsOfAStudyThatWasStoppedAreNotTestedBeforeItEnds) {
  const test::TemporaryFolder folder;
  const CompareOptions options{.recipes = {named(folder, "a", {"name=a"})},
                               .seeds = 2,
                               .figure = "accuracy",
                               .folder = folder / "study"};
  Comparison study = compare(options);
  const auto so_far = [&](const std::filesystem::path& given) {
    return compare_finished_runs({.folders = {given}, .figure = "accuracy"}).terms.so_far;
  };
  EXPECT_FALSE(so_far(folder / "study"));
  study.terms.so_far = true;  // as it stands there after each run but the last
  write_comparison(study, folder / "study");
  EXPECT_TRUE(so_far(folder / "study"));
  EXPECT_FALSE(so_far(folder / "study" / "runs")) << "whoever names the runs has chosen them";
}

TEST(Compare, DataThatWereEditedMakeNoPartOfTheSameStudy) {
  const test::TemporaryFolder folder;
  const auto write_rows = [&](int rows) {
    std::string text = "x,y\n";
    for (int i = 0; i < rows; ++i) text += std::to_string(i % 10) + ".5," + std::to_string(i % 7) + ".25\n";
    folder.write("rows.csv", text);
  };
  const std::string file = (folder / "rows.csv").string();
  const std::string table = "{dataset: table, file: " + file + ", target: y, task: regression}";
  CompareOptions options{
      .recipes = {named(folder, "a",
                        {"data.train=" + table, "data.validation=" + table, "loss.name=mean_squared_error"})},
      .seeds = 1,
      .figure = "loss",
      .folder = folder / "study"};
  write_rows(64);
  compare(options);
  compare(options);  // nothing has changed
  write_rows(80);
  options.seeds = 2;
  const Error error = test::expect_error(ExitCode::kUsage, [&] { compare(options); });
  EXPECT_TRUE(test::holds(error.what(), "the files of data.train have changed"));
  options.folder = folder / "other study";
  compare(options);
  const Error other = test::expect_error(ExitCode::kBadData, [&] {
    compare_finished_runs(
        {.folders = {folder / "study" / "runs" / "a-seed1", folder / "other study" / "runs" / "a-seed2"}});
  });
  EXPECT_TRUE(test::holds(other.what(), "rows.csv"));
}

TEST(Compare, HalvingTrainsTheBestOnToTheBitsOfARunWithoutPauses) {
  const test::TemporaryFolder folder;
  const std::vector<std::string> longer = {"stop.epochs=3", "schedule.name=cosine", "schedule.warmup=10%"};
  CompareOptions options{.recipes = {}, .seeds = 2, .figure = "accuracy", .folder = folder / "halved"};
  for (const char* const lr : {"0.00001", "0.01", "0.0001", "0.003"}) {
    std::vector<std::string> overrides = longer;
    overrides.push_back(std::string("optimizer.lr=") + lr);
    options.recipes.push_back(named(folder, std::string("lr") + lr, overrides));
  }
  options.halving = HalvingRules();
  size_t rows = 0;
  options.on_outcome = [&](const RunOutcome&, bool) { ++rows; };
  const Comparison halved = compare(options);
  EXPECT_EQ(rows, planned_outcomes(options));
  EXPECT_EQ(rows, 12u) << "four points for a third, two for the whole, with two seeds";
  EXPECT_EQ(halved.runs.size(), 8u);
  std::vector<int64_t> unfinished;
  for (const RecipeFigures& recipe : halved.recipes) unfinished.push_back(recipe.unfinished);
  EXPECT_EQ(unfinished, (std::vector<int64_t>{2, 0, 2, 0}));
  EXPECT_EQ(halved.terms.pairs, (std::vector<std::pair<size_t, size_t>>{{1, 3}}));
  EXPECT_EQ(comparison_to_json(read_comparison(folder / "halved")), comparison_to_json(halved));

  const Comparison found = compare_finished_runs({.folders = {folder / "halved"}, .figure = "accuracy"});
  std::multiset<int64_t> ended;
  for (const RecipeFigures& recipe : found.recipes) ended.insert(recipe.final.count);
  EXPECT_EQ(ended, (std::multiset<int64_t>{0, 0, 2, 2})) << "a pause is no end";
  EXPECT_EQ(found.samples, halved.samples) << "and sets no common length";
  EXPECT_TRUE(test::holds(join(found.terms.warnings, " "), "4 of 8 runs were paused before the end"));

  options.halving = {};
  const auto of_whole_runs = [&](const char* name) {
    options.folder = folder / name;
    return compare(options);
  };
  const Comparison gone_on = of_whole_runs("halved"), whole = of_whole_runs("whole");
  for (size_t i = 0; i < options.recipes.size(); ++i) {
    EXPECT_EQ(gone_on.recipes[i].final.mean, whole.recipes[i].final.mean);
    EXPECT_EQ(gone_on.recipes[i].final.count, 2);
  }
  EXPECT_EQ(halved.recipes[1].final.mean, whole.recipes[1].final.mean);
}

TEST(Compare, HalvingNeedsARunWhoseLengthIsKnown) {
  const test::TemporaryFolder folder;
  const CompareOptions options{.recipes = {named(folder, "a", {"stop.epochs=null", "stop.minutes=1"})},
                               .halving = HalvingRules(),
                               .folder = folder / "s"};
  const Error error = test::expect_error(ExitCode::kBadRecipe, [&] { compare(options); });
  EXPECT_TRUE(test::holds(error.what(), "halving"));
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

TEST(Compare, AMarginThatMayMeanTwoThingsIsRefused) {
  const FigureKind share{.better = Better::kHigher, .share = true}, error{};
  EXPECT_DOUBLE_EQ(margin_in({.value = 0.3, .percent = true}, share, "accuracy"), 0.003);
  EXPECT_DOUBLE_EQ(margin_in({.value = 0.003}, share, "accuracy"), 0.003);
  EXPECT_DOUBLE_EQ(margin_in({.value = 12.5}, error, "loss"), 12.5);
  test::expect_error(ExitCode::kUsage, [&] { margin_in({.value = 0.3}, share, "accuracy"); });
  test::expect_error(ExitCode::kUsage, [&] { margin_in({.value = 3, .percent = true}, error, "loss"); });
}

TEST(Compare, FreshSeedsAreThoseThatFollow) {
  const test::TemporaryFolder folder;
  CompareOptions options{
      .recipes = {named(folder, "a", {})}, .seeds = 2, .first_seed = 3, .folder = folder / "study"};
  const Comparison c = compare(options);
  EXPECT_EQ(c.terms.seeds, (std::vector<int64_t>{3, 4}));
  EXPECT_TRUE(std::filesystem::exists(folder / "study" / "results" / "a-search.json"));
  EXPECT_TRUE(std::filesystem::exists(folder / "study" / "results" / "a-seed4.json"));
  EXPECT_EQ(c.recipes[0].final.count, 2);
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
  EXPECT_TRUE(warnings_for("stop.max_skipped=3").empty()) << "which decides no run's length";
}

using Pairs = std::vector<std::pair<size_t, size_t>>;

TEST(Compare, ConvergenceIsEverySizeWithEveryRuleEachTestedAgainstTheFirst) {
  const test::TemporaryFolder folder;
  const auto file = folder.write("recipe.yaml", kRecipe);
  const CompareOptions c = convergence({.config = file, .axes = {{"batch.effective", {"64", "256"}}}});
  ASSERT_EQ(c.recipes.size(), 4u);
  EXPECT_EQ(c.recipes[3].label, "E256-none");
  EXPECT_EQ(c.recipes[2].recipe.batch.effective, 256);
  EXPECT_EQ(c.recipes[2].recipe.batch.lr_rule, "linear");
  EXPECT_EQ(c.pairs, (Pairs{{0, 1}, {0, 2}, {1, 3}, {2, 3}}));
  test::expect_error(ExitCode::kBadRecipe, [&] {
    convergence({.config = file, .overrides = {"stop.updates=5"}, .axes = {{"batch.effective", {"64"}}}});
  });
}

TEST(Compare, AGridHasEveryCombinationAndNoRulesThatNobodyAskedFor) {
  const test::TemporaryFolder folder;
  const auto file = folder.write("recipe.yaml", kRecipe);
  const std::vector<Axis> axes = {{"optimizer.name", {"sgd", "lars"}},
                                  {"optimizer.lr", {"0.1", "0.01", "1"}}};
  const CompareOptions c = convergence({.config = file, .axes = axes});
  ASSERT_EQ(c.recipes.size(), 6u);
  EXPECT_EQ(c.recipes[4].label, "lars-lr=0.01");
  EXPECT_EQ(c.recipes[4].recipe.optimizer.lr, 0.01);
  ASSERT_EQ(c.axes.size(), 2u);
  EXPECT_EQ(c.axes[1].values, (std::vector<std::string>{"0.1", "0.01", "1", "0.1", "0.01", "1"}));
  EXPECT_EQ(c.pairs, (Pairs{{0, 1}, {0, 2}, {0, 3}, {1, 4}, {3, 4}, {2, 5}, {3, 5}}));
  const CompareOptions ruled = convergence({.config = file, .axes = axes, .rules = {"sqrt", "sqrt"}});
  EXPECT_EQ(ruled.recipes.size(), 6u);
  EXPECT_EQ(ruled.recipes[0].label, "sgd-lr=0.1-sqrt");
  const std::vector<Axis> twice = {{"seed", {"1"}}, {"seed", {"2"}}};
  test::expect_error(ExitCode::kUsage, [&] { convergence({.config = file, .axes = twice}); });
}

TEST(Compare, KeysThatGoTogetherAreOneAxisOfAGrid) {
  const test::TemporaryFolder folder;
  const auto file = folder.write("recipe.yaml", kRecipe);
  const std::vector<Axis> axes = {{"data.train.samples,data.validation.samples", {"128", "256"}}};
  const CompareOptions c = convergence({.config = file, .axes = axes});
  ASSERT_EQ(c.recipes.size(), 2u);
  EXPECT_EQ(c.recipes[1].recipe,
            load_recipe(file, {"data.train.samples=256", "data.validation.samples=256"}));
  EXPECT_EQ(c.recipes[1].label, "samples=256");
  const std::vector<Axis> twice = {{"seed,optimizer.lr", {"1"}}, {"optimizer.lr", {"2"}}};
  test::expect_error(ExitCode::kUsage, [&] { convergence({.config = file, .axes = twice}); });
}

TEST(Compare, LabelsOfAGridAreNeverAlike) {
  const test::TemporaryFolder folder;
  const CompareOptions c =
      convergence({.config = folder.write("recipe.yaml", kRecipe),
                   .axes = {{"evaluation.monitor", {"loss", "loss-none"}}, {"name", {"none-none", "none"}}}});
  std::set<std::string> labels;
  for (const NamedRecipe& recipe : c.recipes) labels.insert(recipe.label);
  EXPECT_EQ(labels.size(), 4u);
}

TEST(Compare, ASampleOfAGridIsTheSameForTheSameSeedAndPartOfALargerOne) {
  const test::TemporaryFolder folder;
  const auto file = folder.write("recipe.yaml", kRecipe);
  const auto labels = [&](std::optional<int64_t> sample, const std::string& seed) {
    std::vector<std::string> found;
    for (const NamedRecipe& recipe : convergence({.config = file,
                                     .overrides = {"seed=" + seed},
                                     .axes = {{"optimizer.lr", {"0.1", "0.2", "0.3", "0.4", "0.5"}},
                                              {"model.width", {"4", "8", "16", "32"}}},
                                     .sample = sample})
                                         .recipes)
      found.push_back(recipe.label);
    return found;
  };
  const auto all = labels({}, "1"), six = labels(6, "1"), nine = labels(9, "1");
  EXPECT_EQ(all.size(), 20u);
  EXPECT_EQ(six.size(), 6u);
  EXPECT_EQ(six, labels(6, "1"));
  EXPECT_NE(six, labels(6, "2"));
  EXPECT_EQ(labels(50, "1"), all);
  std::vector<std::string> in_order;
  for (const std::string& label : all) {
    if (std::ranges::count(nine, label) > 0) in_order.push_back(label);
  }
  EXPECT_EQ(nine, in_order) << "each once, in the grid's order";
  for (const std::string& label : six) EXPECT_EQ(std::ranges::count(nine, label), 1) << label;
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

// Last in this file: it trains in this process.
TEST(Compare, RunsWhoseAutomaticBatchCameToOtherSizesAreNoSeedsOfOneRecipe) {
  const test::TemporaryFolder folder;
  FinishedRunsOptions options{.folders = {}, .figure = "accuracy"};
  for (const int64_t seed : {1, 2}) {
    for (const int64_t micro_batch : {16, 128}) {
      const Recipe recipe = named(folder, "a",
                                  {cat("seed=", seed), "batch.effective=auto",
                                   cat("execution.micro_batch=", micro_batch), "stop.epochs=1"})
                                .recipe;
      options.folders.push_back(folder / cat("run-", seed, "-", micro_batch));
      Trainer::from_recipe(recipe, {.output = options.folders.back()}).fit();
    }
  }
  const Comparison c = compare_finished_runs(options);
  ASSERT_EQ(c.recipes.size(), 2u);
  for (const RecipeFigures& recipe : c.recipes) EXPECT_EQ(recipe.final.count, 2);
  const auto key = std::ranges::find(c.terms.differing_keys, "batch.effective", &DifferingKey::path);
  ASSERT_NE(key, c.terms.differing_keys.end());
  EXPECT_EQ(key->values, (std::vector<std::string>{"16", "128"}));
}

}  // namespace
}  // namespace autotrain
