#include "state/branch.h"

#include "checkpoint/safetensors.h"
#include "support/small_run.h"

namespace autotrain {
namespace {

using test::recipe;

// Runs to its end from the branch point, with another recipe.
void continue_branch(const Recipe& r, const std::filesystem::path& folder) {
  test::SmallRun(r, {.output = folder, .resume = true, .allow_change = true}).trainer.fit();
}

Recipe cosine() {
  Recipe r = test::typed_recipe();
  r.schedule.shape = {"cosine", {}};
  r.schedule.warmup = *Span::parse("20%");
  r.batch.lr_rule = "none";
  return r;
}

TEST(Branch, WithTheSameRecipeItIsTheRun) {
  const test::TemporaryFolder folder;
  test::fit(cosine(), folder / "run");
  EXPECT_EQ(samples_at(folder / "run", 14), 1400);
  begin_branch({.run = folder / "run", .update = 14, .start = 1400}, 100, folder / "branch");
  continue_branch(cosine(), folder / "branch");
  EXPECT_EQ(test::model_digest(folder / "branch", 30), test::model_digest(folder / "run", 30));
}

TEST(Branch, OfAnotherBatchIsWhereTheScheduleIsInSamples) {
  const test::TemporaryFolder folder;
  test::fit(cosine(), folder / "run");
  begin_branch({.run = folder / "run", .update = 14, .start = 1400}, 200, folder / "branch");
  Recipe twice = cosine();
  twice.batch.effective = 200;
  continue_branch(twice, folder / "branch");
  const std::vector<double> rates = test::column(folder / "run", "lr");
  const std::vector<double> of_branch = test::column(folder / "branch", "lr");
  ASSERT_EQ(of_branch.size(), 8) << "the 1600 samples that are left";
  for (size_t i = 0; i < of_branch.size(); ++i) EXPECT_NEAR(of_branch[i], rates[14 + 2 * i], 1e-12) << i;
  EXPECT_EQ(test::column(folder / "branch", "samples").back(), 3000);
}

TEST(Branch, AnOptimizersOwnCountGoesWithIt) {
  const test::TemporaryFolder folder;
  test::fit(cosine(), folder / "run");
  begin_branch({.run = folder / "run", .update = 14, .start = 1400}, 200, folder / "branch");
  const auto step = [&](const std::string& run, const std::string& update) {
    for (const NamedTensor& item :
         read_safetensors(folder / run / "checkpoints" / update / "optimizer.safetensors")) {
      if (item.name == "step") return item.tensor.max().item<double>();
    }
    return -1.0;
  };
  EXPECT_EQ(step("run", "update-14"), 14);
  EXPECT_EQ(step("branch", "update-7"), 7);
}

TEST(Branch, TheMomentaOfNAdamWAreThoseOfSoManyUpdates) {
  const test::TemporaryFolder folder;
  Recipe r = cosine();
  r.optimizer.algorithm = {"nadamw", {}};
  test::fit(r, folder / "run");
  const auto product = [&](const std::string& run, int64_t update) {
    const auto files = folder / run / "checkpoints" / ("update-" + std::to_string(update));
    for (const NamedTensor& item : read_safetensors(files / "optimizer.safetensors")) {
      if (item.name == "mu_product") return item.tensor.item<double>();
    }
    return -1.0;
  };
  begin_branch({.run = folder / "run", .update = 14, .start = 1400}, 200, folder / "branch");
  EXPECT_NEAR(product("branch", 7) / product("run", 7), 1, 0.01);
}

TEST(Branch, ADamagedCheckpointIsNamed) {
  const test::TemporaryFolder folder;
  test::fit(cosine(), folder / "run");
  std::filesystem::resize_file(folder / "run" / "checkpoints" / "update-14" / "model.safetensors", 10);
  test::expect_error(ExitCode::kBadData, [&] {
    begin_branch({.run = folder / "run", .update = 14, .start = 1400}, 100, folder / "branch");
  });
}

}  // namespace
}  // namespace autotrain
