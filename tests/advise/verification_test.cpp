#include "advise/verification.h"

#include "autotrain/trainer.h"
#include "support/support.h"

namespace autotrain {
namespace {

BranchRequest request(const std::string& stop) {
  const test::TemporaryFolder folder;
  return {.recipe = load_recipe(folder.write("r.yaml", "optimizer: {name: sgd}\nstop: " + stop + "\n")),
          .effective = 64,
          .micro_batch = 48,
          .lr = 0.001,
          .dataset_size = 10000,
          .start = 6400,
          .factors = {4, 0.5, 2}};
}

constexpr double kFailed = std::numeric_limits<double>::quiet_NaN();

Verification judged(const std::vector<BranchLosses>& losses, double margin = 0.01) {
  Verification v{.seeds = 3, .margin = margin};
  judge_branches(v, losses);
  return v;
}

TEST(Verification, BranchesSeeTheSameSamplesInWholeUpdates) {
  const BranchPlan plan = plan_branches(request("{epochs: 100}"));
  ASSERT_EQ(plan.branches.size(), 4);
  EXPECT_EQ(plan.branches[0].effective, 32);
  EXPECT_EQ(plan.branches[3].effective, 256);
  EXPECT_EQ(plan.branches[0].recipe.execution.micro_batch, 32) << "as many as an update has";
  EXPECT_EQ(plan.branches[3].recipe.execution.micro_batch, 48) << "as in the run";
  EXPECT_EQ(plan.samples, kBranchUpdates * 256);
  EXPECT_EQ(plan.compared, plan.samples / 4);
  for (const Branch& branch : plan.branches) {
    EXPECT_EQ(plan.samples % branch.effective, 0);
    EXPECT_EQ(plan.compared % branch.effective, 0);
    EXPECT_EQ(branch.recipe.batch.effective, branch.effective);
    EXPECT_EQ(branch.recipe.stop.epochs, 100) << "the schedule is the run's";
  }
}

TEST(Verification, BranchesEndBeforeTheScheduleDoes) {
  EXPECT_EQ(plan_branches(request("{samples: 10000}")).samples, 14 * 256) << "what is left";
  const Error error = test::expect_error(ExitCode::kUsage, [] { plan_branches(request("{samples: 7000}")); });
  EXPECT_TRUE(test::holds(error.what(), "600 samples left"));
  EXPECT_TRUE(test::holds(error.what(), "--checkpoint"));
  EXPECT_NO_THROW(plan_branches(request("{minutes: 1}")));
}

TEST(Verification, OneBatchHasNothingToBeComparedWith) {
  BranchRequest r = request("{epochs: 100}");
  for (const std::vector<double>& factors : {std::vector<double>{}, std::vector{1.0}}) {
    r.factors = factors;
    test::expect_error(ExitCode::kUsage, [&] { plan_branches(r); });
  }
}

TEST(Verification, ABatchMustBeOne) {
  for (const double factor : {0.0, -1.0, 0.3, 1000.0}) {
    BranchRequest r = request("{epochs: 100}");
    r.factors = {factor};
    test::expect_error(ExitCode::kUsage, [&] { plan_branches(r); });
  }
}

TEST(Verification, TheLargestThatIsNotWorseIsTheMeasuredCriticalBatch) {
  const Verification v = judged({{0.5, 32, {1.000, 1.001, 0.999}},
                                 {1, 64, {1.000, 1.001, 0.999}},
                                 {2, 128, {1.001, 1.002, 1.000}},
                                 {4, 256, {1.200, 1.210, 1.190}}});
  EXPECT_EQ(v.branches[0].verdict, BranchStanding::kNotWorse);
  EXPECT_EQ(v.branches[1].verdict, BranchStanding::kReference);
  EXPECT_EQ(v.branches[2].verdict, BranchStanding::kNotWorse);
  EXPECT_EQ(v.branches[3].verdict, BranchStanding::kWorse);
  EXPECT_EQ(v.critical, 128);
  EXPECT_FALSE(v.at_edge);
  EXPECT_LT(v.branches[3].p_worse, 0.001);
  EXPECT_NEAR(v.branches[3].difference, 0.2, 1e-9);
}

TEST(Verification, RunsWithOneSeedAreComparedWithEachOther) {
  // Seeds differ by far more than the margin, and branches with one seed by far less.
  const Verification v = judged({{0.25, 16, {0.979, 1.078, 1.177}},
                                 {0.5, 32, {1.001, 1.102, 1.200}},
                                 {1, 64, {1.000, 1.100, 1.200}},
                                 {2, 128, {1.003, 1.102, 1.204}},
                                 {4, 256, {1.050, 1.152, 1.249}}});
  EXPECT_EQ(v.branches[0].verdict, BranchStanding::kBetter);
  EXPECT_EQ(v.branches[1].verdict, BranchStanding::kNotWorse);
  EXPECT_LT(v.branches[1].p_no_better, 0.05);
  EXPECT_GT(v.branches[0].p_no_better, 0.95);
  EXPECT_EQ(v.branches[3].verdict, BranchStanding::kNotWorse)
      << "surely a little worse, and by less than the margin";
  EXPECT_LT(v.branches[3].p_worse, 0.05);
  EXPECT_EQ(v.branches[4].verdict, BranchStanding::kWorse);
  EXPECT_TRUE(v.exceeded) << "a quarter of the batch is better";
  EXPECT_EQ(v.critical, 64);
  EXPECT_TRUE(test::holds(sentences_of(v, 32.0).at(0), "below 64 samples"));
  EXPECT_TRUE(test::holds(sentences_of(v, 32.0).at(1), "2 times or less"));
}

TEST(Verification, BeyondAGapNothingIsConcluded) {
  const Verification v =
      judged({{1, 64, {1.0, 1.001, 0.999}}, {2, 128, {1.2, 0.8, 1.1}}, {4, 256, {1.0, 1.001, 0.999}}});
  EXPECT_EQ(v.branches[1].verdict, BranchStanding::kUndetermined);
  EXPECT_EQ(v.branches[2].verdict, BranchStanding::kNotWorse);
  EXPECT_EQ(v.critical, 64);
}

TEST(Verification, ABranchThatDivergesIsWorse) {
  const Verification v = judged({{1, 64, {1.0, 1.001}}, {2, 128, {1.0, kFailed}, 1}});
  EXPECT_EQ(v.branches[1].losses.failed(), 1);
  EXPECT_EQ(v.branches[1].verdict, BranchStanding::kWorse);
  EXPECT_EQ(v.critical, 64);
}

TEST(Verification, OfABranchThatFailsOtherwiseNothingIsSaid) {
  const Verification v = judged({{0.5, 32, {kFailed, kFailed, kFailed}},
                                 {1, 64, {1.0, 1.001, 0.999}},
                                 {2, 128, {1.0, 1.001, kFailed}},
                                 {4, 256, {1.0, 1.001, 0.999}}});
  EXPECT_EQ(v.branches[0].verdict, BranchStanding::kUndetermined);
  EXPECT_EQ(v.branches[2].verdict, BranchStanding::kUndetermined);
  EXPECT_EQ(v.critical, 64) << "what is beyond it is not looked at";
}

TEST(Verification, OneSeedSaysNothing) {
  const Verification v = judged({{1, 64, {1.0}}, {2, 128, {1.0}}});
  EXPECT_EQ(v.branches[1].verdict, BranchStanding::kUndetermined);
  EXPECT_EQ(v.critical, 64);
}

TEST(Verification, WithoutAReferenceNothingIsSaid) {
  const Verification v = judged({{1, 64, {kFailed, kFailed, kFailed}}, {2, 128, {1.0, 1.0, 1.0}}});
  EXPECT_EQ(v.critical, 0);
  EXPECT_TRUE(test::holds(sentences_of(v, 10.0).front(), "failed"));
}

TEST(Verification, AllThatIsKnownIsALowerBoundAtTheEdge) {
  const Verification v = judged({{1, 64, {1.0, 1.001, 0.999}}, {2, 128, {1.0, 1.001, 0.999}}});
  EXPECT_TRUE(v.at_edge);
  EXPECT_TRUE(test::holds(sentences_of(v, 256.0).at(0), "at least 128"));
  EXPECT_TRUE(test::holds(sentences_of(v, 256.0).at(1), "0.5 times or more"));
}

TEST(Verification, TheLossIsOfTheLastSamplesEachCountedOnce) {
  const test::TemporaryFolder folder;
  std::string rows;
  for (const auto& [samples, loss] : {std::pair(100, 9), {200, 9}, {300, 2}, {500, 5}})
    rows += "{\"kind\":\"update\",\"update\":1,\"samples\":" + std::to_string(samples) +
            ",\"loss\":" + std::to_string(loss) + "}\n";
  EXPECT_DOUBLE_EQ(smoothed_loss(folder.write("m.jsonl", rows), 200), (100 * 2 + 200 * 5) / 300.0);
}

}  // namespace
}  // namespace autotrain
