// Whole runs over samples of different lengths.
#include "autotrain/trainer.h"
#include "support/ragged.h"
#include "support/small_run.h"

namespace autotrain {
namespace {

using test::column;
using test::Ragged;
using test::TemporaryFolder;

constexpr int64_t kWidth = 32, kLongest = 120;

Ragged make_data(int64_t count, uint64_t seed, bool silent = false) {
  Random random(seed);
  return Ragged(test::random_lengths(count, random, kLongest), silent);
}

Recipe make_recipe(std::optional<int64_t> micro_batch) {
  Recipe r = test::small_recipe();
  r.batch.effective = 24;
  r.stop = {};
  r.stop.updates = 9;  // the data set is crossed on the way
  r.evaluation.monitor = "perplexity";
  r.execution.micro_batch = micro_batch;
  return r;
}

struct RaggedRun {
  explicit RaggedRun(const Recipe& recipe, TrainerOptions options, bool silent = false,
                     int64_t width = kWidth)
      : train(make_data(100, 1, silent)),
        validation(make_data(30, 2, silent)),
        trainer(recipe, test::ragged_task(kLongest, width), train, validation, std::move(options)) {}

  Ragged train, validation;
  Trainer trainer;
};

Summary fit_ragged(const Recipe& recipe, const std::filesystem::path& folder, bool resume = false,
                   bool silent = false) {
  return RaggedRun(recipe, {.output = folder, .resume = resume}, silent).trainer.fit();
}

// Plain descent: adaptive optimizers divide by the root of a second moment that may be next to nothing, and
// then make anything of what rounding leaves.
Recipe plain_recipe(int64_t micro_batch) {
  Recipe r = make_recipe(micro_batch);
  r.optimizer.algorithm = {"sgd", {}};
  r.optimizer.lr = 0.05;
  return r;
}

// A window is sorted by what samples cost: its first micro-batch is of the longest, and stands for no other.
TEST(VariableLength, TellsNothingOfGradientNoiseWhereWindowsAreSorted) {
  const TemporaryFolder folder;
  Recipe r = plain_recipe(5);
  EXPECT_FALSE(fit_ragged(r, folder / "auto").noise_scale);
  for (const nlohmann::ordered_json& noise : test::noise_rows(folder / "auto")) EXPECT_TRUE(noise.is_null());
  r.execution.statistics = Statistics::kOn;
  test::expect_error(ExitCode::kBadRecipe, [&] { fit_ragged(r, folder / "on"); });
}

TEST(VariableLength, NeitherCutNorSortingNorPaddingChangesAnUpdateButForRounding) {
  const TemporaryFolder folder;
  const Summary whole = fit_ragged(plain_recipe(24), folder / "whole");
  const auto losses = column(folder / "whole", "loss"), norms = column(folder / "whole", "grad_norm");
  for (const int64_t micro_batch : {1, 5, 7}) {
    for (const bool silent : {false, true}) {  // silent ones are cut as they come, with more padding
      const auto path = folder / std::to_string(2 * micro_batch + (silent ? 1 : 0));
      const Summary cut = fit_ragged(plain_recipe(micro_batch), path, false, silent);
      for (size_t i = 0; i < losses.size(); ++i) {
        EXPECT_NEAR(column(path, "loss")[i] / losses[i], 1, 1e-5) << micro_batch << " " << silent;
        EXPECT_NEAR(column(path, "grad_norm")[i] / norms[i], 1, 1e-5) << micro_batch << " " << silent;
      }
      EXPECT_NEAR(cut.final.at("perplexity") / whole.final.at("perplexity"), 1, 1e-5);
    }
  }
}

TEST(VariableLength, EvaluationsDoNotDependOnTheCut) {
  const TemporaryFolder folder;
  std::vector<double> perplexities;
  for (const int64_t micro_batch : {30, 4, 1}) {
    Recipe recipe = make_recipe(24);
    recipe.evaluation.micro_batch = micro_batch;
    for (const bool silent : {false, true}) {
      const auto path = folder / std::to_string(2 * micro_batch + (silent ? 1 : 0));
      perplexities.push_back(fit_ragged(recipe, path, false, silent).final.at("perplexity"));
    }
  }
  for (const double perplexity : perplexities) EXPECT_NEAR(perplexity / perplexities[0], 1, 1e-5);
}

TEST(VariableLength, AStoppedAndResumedRunEqualsTheUninterruptedOneForAnyWorkers) {
  const TemporaryFolder folder;
  Recipe recipe = make_recipe(5);
  fit_ragged(recipe, folder / "straight");
  for (const int64_t workers : {0, 3}) {
    recipe.execution.loader.workers = workers;
    const auto path = folder / std::to_string(workers);
    {
      RaggedRun run(recipe, {.output = path});
      run.trainer.on_update(
          [](const UpdateRecord& u) { return u.update < 4 ? Flow::kContinue : Flow::kStop; });
      EXPECT_EQ(run.trainer.fit().updates, 4);
    }
    fit_ragged(recipe, path, /*resume=*/true);
    EXPECT_EQ(test::model_digest(path, 9), test::model_digest(folder / "straight", 9)) << workers;
  }
}

TEST(VariableLength, ThePlanIsMadeForTheWorstShapeAndSaysWhatIsTypical) {
  const TemporaryFolder folder;
  Recipe recipe = make_recipe(std::nullopt);
  // Much more than the granules in which memory is taken, so that the two shapes can be told apart.
  recipe.execution.memory.budget = *Budget::parse("40MiB");
  RaggedRun run(recipe, {.output = folder / "run"}, /*silent=*/false, /*width=*/128);
  const BatchPlan plan = run.trainer.plan();
  EXPECT_TRUE(plan.confirmed && plan.search.confirmed);
  EXPECT_GT(plan.window, 1);
  EXPECT_GT(plan.typical_fill, 0);
  EXPECT_LT(plan.typical_fill, plan.fill);
  EXPECT_TRUE(test::holds(summary_line(plan), "at the worst shape, typical "));
  EXPECT_TRUE(test::holds(plan.split_check, "rounding"));
  const Summary summary = run.trainer.fit();
  EXPECT_EQ(summary.oom_recoveries, 0);
  EXPECT_LE(summary.peak_bytes, plan.budget_bytes);
  EXPECT_EQ(test::read_json(folder / "run" / "plan.json").at("typical_fill"), plan.typical_fill);
}

TEST(VariableLength, WhereSamplesAreAlikeTypicalIsTheWorst) {
  const TemporaryFolder folder;
  RaggedRun run(make_recipe(5), {.output = folder / "run"}, /*silent=*/true);
  const BatchPlan& plan = run.trainer.plan();
  EXPECT_EQ(plan.typical_fill, plan.fill);
  EXPECT_FALSE(test::holds(summary_line(plan), "typical"));
}

TEST(VariableLength, ALossThatCountsPaddingIsFoundByTheSplitCheck) {
  const Loss careless = cross_entropy({.ignore_index = -1});
  const auto clamped = [careless](const torch::Tensor& prediction, const torch::Tensor& target) {
    return careless.terms(prediction, target.clamp_min(0));
  };
  const Ragged data({3, 9, 20, 5, 7, 2, 11, 4});
  Recipe recipe = make_recipe(2);
  recipe.batch.effective = 8;
  recipe.evaluation.monitor = "loss";
  Trainer trainer(recipe, test::ragged_task(20, 8, {clamped, {}}), data, {.write_files = false});
  EXPECT_TRUE(test::holds(trainer.plan().split_check, "fills up shorter samples"));
}

}  // namespace
}  // namespace autotrain
