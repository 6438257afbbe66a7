#include "advise/advice.h"

#include <gtest/gtest.h>

#include "advise/advice_words.h"
#include "autotrain/trainer.h"
#include "support/support.h"

namespace autotrain {
namespace {

// The noise scale advises 128 samples in the place of 512.
Advice lower() {
  const ExecutionModel execution{.points = {{32, 0.32, 1}, {64, 0.64, 1}}, .capacity = 512};
  Advice advice;
  advice.run.plan.effective_batch = 512;
  advice.run.noise = NoiseScale{.samples = 500, .low = 400, .high = 600};
  advice.execution = execution;
  const test::TemporaryFolder folder;
  advice.run.recipe = load_recipe(folder.write("r.yaml", "optimizer: {name: sgd}\nstop: {epochs: 1}\n"));
  advice.batch =
      advise_batch({.execution = execution, .noise = advice.run.noise, .own = 512, .dataset_size = 100000});
  advice.batch.advised = 0;
  while (advice.batch.rows[advice.batch.advised].effective != 128) ++advice.batch.advised;
  advice.lines = {{"batch.effective", "512", "128", "samples per update"}};
  return advice;
}

Verification measured(const std::vector<BranchLosses>& losses) {
  Verification v{.seeds = 3, .margin = 0.01};
  judge_branches(v, losses);
  return v;
}

const std::vector<double> kOwn = {1.000, 1.101, 1.200};

TEST(BatchAdvice, BranchesThatShowNoGainOfSmallerBatchesRefuteTheNoiseScale) {
  for (const int64_t between : {128, 256}) {
    Advice advice = lower();
    ASSERT_EQ(advice.batch.verdict, BatchVerdict::kLower);
    heed(advice,
         measured({{static_cast<double>(between) / 512, between, {1.001, 1.101, 1.201}}, {1, 512, kOwn}}));
    EXPECT_EQ(advice.batch.verdict, BatchVerdict::kKeep);
    EXPECT_EQ(advice.batch.rows[advice.batch.advised].effective, 512);
    EXPECT_TRUE(advice.lines.empty()) << "nothing is to be changed";
    EXPECT_EQ(advice.batch.rows[advice.refuted.value()].effective, 128);
    EXPECT_TRUE(test::holds(sentences_of(advice).front(), "but branches show no better loss")) << between;
  }
}

TEST(BatchAdvice, BranchesThatGainOrTellNothingLeaveIt) {
  for (const std::vector<double>& smaller : {std::vector{0.9, 1.001, 1.1}, std::vector{0.9, 1.301, 1.2}}) {
    Advice advice = lower();
    heed(advice, measured({{0.25, 128, smaller}, {1, 512, kOwn}}));
    EXPECT_EQ(advice.batch.verdict, BatchVerdict::kLower);
    EXPECT_FALSE(advice.refuted);
  }
  Advice beyond = lower();
  heed(beyond, measured({{0.125, 64, {1.001, 1.101, 1.201}}, {1, 512, kOwn}}));
  EXPECT_EQ(beyond.batch.verdict, BatchVerdict::kLower)
      << "a size that was not advised speaks for itself alone";
}

// The noise scale leaves a run of 32 samples as it is. Fewer are slower.
Advice keep(double seconds_of_64, double seconds_of_128) {
  const ExecutionModel execution{
      .points = {{8, 0.32, 1}, {32, 0.32, 1}, {64, seconds_of_64, 1}, {128, seconds_of_128, 1}},
      .capacity = 128};
  Advice advice = lower();
  advice.run.plan.effective_batch = 32;
  advice.run.noise = NoiseScale{.samples = 20, .low = 1, .high = 2000};
  advice.execution = execution;
  advice.batch =
      advise_batch({.execution = execution, .noise = advice.run.noise, .own = 32, .dataset_size = 100000});
  advice.lines.clear();
  return advice;
}

Verification no_worse_up_to(int64_t effective) {
  std::vector<BranchLosses> losses = {{1, 32, kOwn}};
  for (int64_t e = 64; e <= 256; e *= 2)
    losses.push_back({static_cast<double>(e) / 32, e,
                      e <= effective ? std::vector{1.001, 1.1, 1.201} : std::vector{1.2, 1.3, 1.401}});
  return measured(losses);
}

TEST(BatchAdvice, BranchesThatAreNoWorseRaiseToTheFastestUpToTheMeasuredCriticalBatch) {
  for (const int64_t critical : {64, 128, 256}) {
    Advice advice = keep(0.6, 1.0);
    ASSERT_EQ(advice.batch.verdict, BatchVerdict::kKeep);
    heed(advice, no_worse_up_to(critical));
    ASSERT_EQ(advice.verification->critical, critical);
    EXPECT_EQ(advice.batch.verdict, BatchVerdict::kRaise);
    EXPECT_TRUE(advice.by_branches);
    EXPECT_EQ(advice.batch.rows[advice.batch.advised].effective, std::min<int64_t>(critical, 128))
        << "the largest that fits, of which more make no update faster";
    EXPECT_FALSE(advice.lines.empty());
    EXPECT_TRUE(test::holds(sentences_of(advice).front(), "no worse than E = 32 at equal samples"));
  }
}

TEST(BatchAdvice, BranchesThatAreNoWorseAndNoFasterRaiseNothing) {
  Advice advice = keep(0.64, 1.28);
  heed(advice, no_worse_up_to(256));
  EXPECT_EQ(advice.batch.verdict, BatchVerdict::kKeep);
  EXPECT_TRUE(advice.lines.empty());
  EXPECT_FALSE(test::holds(sentences_of(advice).front(), "--branches")) << "it was";
  Advice worse = keep(0.6, 1.0);
  heed(worse, no_worse_up_to(32));
  EXPECT_EQ(worse.batch.verdict, BatchVerdict::kKeep);
}

TEST(BatchAdvice, BranchesThatAreWorseRefuteALargerBatch) {
  for (const int64_t critical : {32, 64}) {
    Advice advice = keep(0.6, 1.0);
    advice.batch.verdict = BatchVerdict::kRaise;
    while (advice.batch.rows[advice.batch.advised].effective != 128) ++advice.batch.advised;
    heed(advice, no_worse_up_to(critical));
    EXPECT_EQ(advice.batch.rows[advice.refuted.value()].effective, 128);
    EXPECT_EQ(advice.batch.rows[advice.batch.advised].effective, critical) << "the fastest that is no worse";
  }
}

TEST(BatchAdvice, OfARunWhoseBatchChangesThereAreNoLines) {
  Advice advice = keep(0.6, 1.0);
  advice.run.recipe.batch.schedule.rule = BatchRule::kSeesaw;
  heed(advice, no_worse_up_to(256));
  EXPECT_EQ(advice.batch.verdict, BatchVerdict::kRaise);
  EXPECT_TRUE(advice.lines.empty());
  EXPECT_TRUE(test::holds(sentences_of(advice)[1], "changes as its recipe says"));
}

}  // namespace
}  // namespace autotrain
