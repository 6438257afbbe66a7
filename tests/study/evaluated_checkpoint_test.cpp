#include "study/evaluated_checkpoint.h"

#include "autotrain/trainer.h"
#include "base/text.h"
#include "support/refusals.h"
#include "support/support.h"

namespace autotrain {
namespace {

constexpr const char* kRecipe = R"(
data:
  train: {dataset: synthetic, kind: vectors, samples: 512}
  validation: {dataset: synthetic, kind: vectors, samples: 512}
model: {name: mlp, depth: 1, width: 8}
batch: {effective: 64}
stop: {epochs: 1}
execution: {precision: fp32, memory: {budget: 64MiB}, micro_batch: 64}
)";

struct Evaluated {
  explicit Evaluated(const test::TemporaryFolder& folder) {
    recipe = load_recipe(folder.write("recipe.yaml", kRecipe));
    Trainer trainer = Trainer::from_recipe(recipe, {.output = folder / "run"});
    const int64_t update = trainer.fit().updates;
    run = on_training_set(recipe, trainer.plan(), folder / "run", update);
  }

  double loss_after(int refusals) {
    const test::Refusals refused(refusals);
    return evaluate_checkpoint(run, [](int64_t) {}).figures.at("loss");
  }

  Recipe recipe;
  TrainedRun run;
};

TEST(EvaluatedCheckpoint, MemoryThatRunsOutIsGotOver) {
  const test::TemporaryFolder folder;
  Evaluated evaluated(folder);
  const double undisturbed = evaluated.loss_after(0);
  EXPECT_EQ(evaluated.loss_after(1), undisturbed) << "the same size, so the same bits";
  EXPECT_NEAR(evaluated.loss_after(3), undisturbed, 1e-6 * std::abs(undisturbed)) << "a quarter of the size";
}

TEST(EvaluatedCheckpoint, OfFewerSamplesIsOfTheFirstOnes) {
  const test::TemporaryFolder folder;
  const Evaluated evaluated(folder);
  int64_t done = 0;
  const auto some =
      evaluate_checkpoint(evaluated.run, [&](int64_t samples) { done = samples; }, {.samples = 100});
  EXPECT_EQ(done, 100);
  TrainedRun smaller = evaluated.run;
  smaller.recipe.data.validation->parameters["samples"] = int64_t{100};
  EXPECT_EQ(some.figures, evaluate_checkpoint(smaller).figures);
  EXPECT_NE(some.figures, evaluate_checkpoint(evaluated.run).figures);
}

TEST(EvaluatedCheckpoint, NoMemoryForOneSampleIsAnErrorThatSaysWhatWouldHelp) {
  const test::TemporaryFolder folder;
  Evaluated evaluated(folder);
  const Error error = test::expect_error(ExitCode::kDoesNotFit, [&] { evaluated.loss_after(1'000'000); });
  EXPECT_TRUE(test::holds(error.problem(), "out of memory with 1 sample"));
}

// Training data that are balanced are evaluated as they lie, each sample once.
TEST(EvaluatedCheckpoint, OfTrainingDataThatAreBalancedSeesEachSampleOnce) {
  const test::TemporaryFolder folder;
  std::string rows = "x,w,y\n", weights;
  for (int i = 0; i < 64; ++i) {
    rows += cat(i % 16, ".5,", i % 3 + 1, ",", i % 4 == 0 ? "rare" : "often", "\n");
    weights += cat(i % 3 + 1, "\n");
  }
  const std::string file = folder.write("rows.csv", rows).string();
  const std::string table = cat("dataset: table, file: ", file, ", target: y, task: classification");
  const std::string column = ", weight_column: w, balance: weights";
  for (const std::string& balance :
       {std::string(", balance: classes"),
        cat(", balance: weights, weights: ", folder.write("weights.txt", weights).string()), column}) {
    const Recipe recipe =
        load_recipe(folder.write("recipe.yaml", kRecipe),
                    {cat("data.train={", table, balance, "}"),
                     cat("data.validation={", table, balance == column ? ", weight_column: w" : "", "}")});
    const auto run = folder / cat("run", balance.size());
    Trainer trainer = Trainer::from_recipe(recipe, {.output = run});
    const Summary summary = trainer.fit();
    const TrainedRun trained = on_training_set(recipe, trainer.plan(), run, summary.updates);
    EXPECT_NEAR(evaluate_checkpoint(trained).figures.at("loss"), summary.final.at("loss"), 1e-6) << balance;
  }
}

}  // namespace
}  // namespace autotrain
