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

}  // namespace
}  // namespace autotrain
