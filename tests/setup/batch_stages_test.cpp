#include "setup/batch_stages.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "autotrain/log.h"
#include "base/interrupt.h"
#include "device/caching_allocator.h"
#include "loop/adapted_batch.h"
#include "optim/schedule.h"
#include "setup/horizon.h"
#include "support/small_run.h"

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;
using test::column;
using test::fit;
using test::model_digest;
using test::SmallRun;
using test::TemporaryFolder;
namespace fs = std::filesystem;

constexpr int64_t kForever = int64_t{1} << 62;

// 1000 samples in updates of 50, then 120, then 80: the second stage begins at 300, the third at 300 + 3 ×
// 120.
Recipe staged_recipe() {
  Recipe r = test::typed_recipe();
  r.batch.effective.reset();
  r.batch.schedule.stages = {{0, 50}, {280, 120}, {600, 80}};
  r.stop = {};
  r.stop.samples = 1000;
  r.stop.keep_last = true;
  r.schedule.shape = {"cosine", {}};
  r.schedule.warmup = *Span::parse("20%");
  r.average.half_life = 300;
  r.checkpoint.every = *Interval::parse("130 samples");
  r.evaluation.every = *Interval::parse("250 samples");
  r.execution.micro_batch = 34;
  return r;
}

std::vector<double> staged_batches() {
  return {50, 50, 50, 50, 50, 50, 120, 120, 120, 80, 80, 80, 80, 20};
}

constexpr int64_t kStagedUpdates = 14;

std::vector<std::string> told(const fs::path& run, const std::string& event) {
  std::vector<std::string> details;
  for (const Json& row : read_metrics(run / "metrics.jsonl")) {
    if (row.at("kind") == "event" && row.at("event") == event)
      details.push_back(row.at("detail").get<std::string>());
  }
  return details;
}

void expect_same_run(const fs::path& run, const fs::path& straight, int64_t update, const std::string& why) {
  for (const char* const file : {"model.safetensors", "optimizer.safetensors", "averaged.safetensors"}) {
    const fs::path path = fs::path("checkpoints") / ("update-" + std::to_string(update)) / file;
    EXPECT_EQ(fs::exists(run / path), fs::exists(straight / path)) << why << ": " << path;
    if (!fs::exists(straight / path)) continue;
    EXPECT_TRUE(test::slurp(run / path) == test::slurp(straight / path)) << why << ": " << path;
  }
  EXPECT_EQ(test::timeless_rows(run), test::timeless_rows(straight)) << why;
}

// ---------------------------------------------------------------- what E is at a sample

TEST(BatchStages, AStageBeginsAtTheFirstUpdateThatBeginsThereOrBeyond) {
  const BatchStages stages({{0, 50}, {280, 120}, {600, 80}}, 0, 120);
  EXPECT_EQ(stages.at(0), 50);
  EXPECT_EQ(stages.at(279), 50);
  EXPECT_EQ(stages.at(280), 120);
  EXPECT_EQ(stages.at(kForever), 80);
  EXPECT_TRUE(stages.change());
  EXPECT_FALSE(BatchStages(64).change());
  EXPECT_EQ(BatchStages(64).at(kForever), 64);
}

TEST(BatchStages, UpdatesBetweenTwoSamplesAreWhatWalkingFromOneToTheNextComesTo) {
  const BatchStages stages({{0, 50}, {280, 120}, {600, 80}}, 0, 120);
  for (int64_t limit = 0; limit < 1500; ++limit) {
    for (const int64_t start : {0, 50, 300, 660}) {
      BatchStages::Updates walked{.samples = start};
      while (walked.samples + stages.at(walked.samples) <= limit) {
        walked.samples += stages.at(walked.samples);
        ++walked.count;
      }
      const BatchStages::Updates found = stages.between(start, limit);
      ASSERT_EQ(found.count, walked.count) << start << " to " << limit;
      ASSERT_EQ(found.samples, walked.samples) << start << " to " << limit;
    }
  }
}

TEST(BatchStages, AStopInUpdatesIsThatManyOfTheFirstStage) {
  Recipe r = staged_recipe();
  r.stop = {};
  r.stop.updates = 10;
  const BatchStages stages = stages_of(r, 1000, 0);
  const Horizon horizon = horizon_of(r, 1000, stages);
  EXPECT_EQ(*horizon.samples, 500);
  EXPECT_EQ(*horizon.updates, 10) << "as schedules count";
  EXPECT_EQ(horizon.total_updates(0, 0, stages), 7) << "6 × 50 and 120";
  r.stop.keep_last = true;
  EXPECT_EQ(horizon_of(r, 1000, stages).total_updates(0, 0, stages), 8);
  EXPECT_EQ(horizon_of(r, 1000, stages).last_window, 80);
}

// ---------------------------------------------------------------- seesaw

Recipe seesaw_recipe(Choice shape, int64_t samples = 64000) {
  Recipe r = test::small_recipe();
  r.batch.effective = 64;
  r.batch.schedule.rule = BatchRule::kSeesaw;
  r.batch.limits.max_effective = 512;
  r.schedule.shape = std::move(shape);
  r.stop = {};
  r.stop.samples = samples;
  return r;
}

std::vector<BatchStage> seesaw(const Recipe& r) {
  return stages_of(r, 1000000, 0).list();
}

TEST(Seesaw, DoublesWhereACosineHasComeToAHalfAQuarterAndAnEighth) {
  const auto sample_of = [](double part) {  // (1 + cos πx) ÷ 2 = part, over 64,000 samples
    return static_cast<int64_t>(std::ceil(64000 * std::acos(2 * part - 1) / std::numbers::pi));
  };
  EXPECT_EQ(sample_of(0.25), 42667);
  const std::vector<BatchStage> expected = {{0, 64}, {32000, 128}, {42667, 256}, {sample_of(0.125), 512}};
  EXPECT_EQ(seesaw(seesaw_recipe({"cosine", {}})), expected);
}

TEST(Seesaw, DoublesWhereAStraightLineHas) {
  const std::vector<BatchStage> expected = {{0, 64}, {32000, 128}, {48000, 256}, {56000, 512}};
  EXPECT_EQ(seesaw(seesaw_recipe({"linear", {}})), expected);
  const std::vector<BatchStage> bounded = {{0, 64},
                                           {48000, 128}};  // 1 − x × ⅔ comes to a half, and to no quarter
  EXPECT_EQ(seesaw(seesaw_recipe({"linear", {{"final_factor", 1.0 / 3}}})), bounded);
}

TEST(Seesaw, FollowsEveryStepOfAScheduleOfSteps) {
  const std::vector<BatchStage> halves = {{0, 64}, {16000, 128}, {32000, 256}, {48000, 512}};
  EXPECT_EQ(seesaw(seesaw_recipe({"step", {{"every", int64_t{250}}, {"factor", 0.5}}})), halves);
  const std::vector<BatchStage> tenth = {{0, 64}, {32000, 512}};  // a tenth is less than an eighth
  EXPECT_EQ(seesaw(seesaw_recipe({"step", {{"every", int64_t{500}}, {"factor", 0.1}}})), tenth);
}

TEST(Seesaw, BeginsAfterWarmUpAndHasNoStageWithoutAnUpdate) {
  Recipe r = seesaw_recipe({"linear", {}});
  r.schedule.warmup = *Span::parse("50%");
  const std::vector<BatchStage> warmed = {{0, 64}, {48000, 128}, {56000, 256}, {60000, 512}};
  EXPECT_EQ(seesaw(r), warmed);
  const std::vector<BatchStage> little = {{0, 64}, {320, 128}};  // at 480 of 640 there is no room for 256
  EXPECT_EQ(seesaw(seesaw_recipe({"linear", {}}, 640)), little);
}

TEST(Seesaw, DividesTheRateByTheRootOfTwoWhereTheScheduleHalvesIt) {
  Recipe r = seesaw_recipe({"step", {{"every", int64_t{250}}, {"factor", 0.5}}});
  r.optimizer.lr = 0.01;
  r.optimizer.reference_batch = 32;
  r.batch.lr_rule = "linear";
  const BatchStages stages = stages_of(r, 1000000, 0);
  const Schedule schedule(r.schedule, horizon_of(r, 1000000, stages).updates, 64);
  double before = 0;
  for (const BatchStage& stage : stages.list()) {
    const double rate =
        scaled_rate(r, stages, stage.effective) * schedule.factor(static_cast<double>(stage.samples) / 64);
    EXPECT_NEAR(rate, before > 0 ? before / std::numbers::sqrt2 : 0.02, 1e-15);
    before = rate;
  }
}

TEST(Seesaw, WhatNeverFallsAndWhatHasNoEndIsARecipeError) {
  const TemporaryFolder folder;
  const auto refuse = [&](const Recipe& r) {
    return std::string(test::expect_error(ExitCode::kBadRecipe, [&] { fit(r, folder / "run"); }).what());
  };
  for (const char* const name : {"constant", "one_cycle", "restarts", "plateau"})
    EXPECT_TRUE(test::holds(refuse(seesaw_recipe({name, {}})), "where schedule"));
  Recipe r = seesaw_recipe({"step", {}});
  r.stop = {};
  r.stop.minutes = 1;
  EXPECT_TRUE(test::holds(refuse(r), "length is known"));
}

// ---------------------------------------------------------------- runs

TEST(StagedRuns, OneStageIsNoSchedule) {
  for (const ScheduleRow& row : schedule_table()) {
    const TemporaryFolder folder;
    Recipe r = test::typed_recipe();
    r.stop.epochs = 1.05;  // 10 updates of 100 samples, and half of one
    r.stop.keep_last = true;
    r.average.half_life = 300;
    r.schedule.shape = {row.spec.name, {}};
    for (const KeySpec& key : row.spec.keys) {
      if (key.name == "every") r.schedule.shape.parameters[key.name] = int64_t{3};
    }
    if (!row.spec.rises) r.schedule.warmup = *Span::parse("20%");
    fit(r, folder / "plain");
    r.batch.schedule.stages = {{0, *std::exchange(r.batch.effective, std::nullopt)}};
    fit(r, folder / "staged");
    expect_same_run(folder / "staged", folder / "plain", 11, row.spec.name);
  }
}

TEST(StagedRuns, UpdatesHaveTheStagesSamplesAndTheRateFollowsTheSamples) {
  const TemporaryFolder folder;
  const Recipe r = staged_recipe();
  fit(r, folder / "run");
  EXPECT_EQ(column(folder / "run", "effective_batch"), staged_batches());
  const std::vector<double> samples = column(folder / "run", "samples"), rates = column(folder / "run", "lr");
  double learned = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    const double effective =
        i + 1 < samples.size() ? staged_batches()[i] : 80;  // the last update is cut short
    const double warmed = 200;
    const double factor = learned < warmed ? (learned + effective) / warmed
                                           : (1 + std::cos(std::numbers::pi * (learned - warmed) / 800)) / 2;
    EXPECT_NEAR(rates[i], 0.0005 * effective / 32 * factor, 1e-12) << "update " << i + 1;
    learned += staged_batches()[i];
    EXPECT_EQ(samples[i], learned);
  }
  const std::vector<std::string> expected = {"effective batch 50 → 120 from sample 300 on",
                                             "effective batch 120 → 80 from sample 660 on"};
  EXPECT_EQ(told(folder / "run", "batch"), expected);
  const Json plan = test::read_json(folder / "run" / "plan.json");
  EXPECT_EQ(plan.at("effective_batch"), 120);
  EXPECT_EQ(plan.at("window"), 4) << "3 × 34 and 18";
  EXPECT_EQ(plan.at("stages").size(), 3u);
  EXPECT_EQ(plan.at("stages")[0].at("window"), 2);
}

void interrupt_at(const Recipe& r, const fs::path& folder, int64_t update) {
  SmallRun run(r, {.output = folder, .resume = true});
  run.trainer.on_update([&](const UpdateRecord& u) {
    if (u.update == update) request_interrupt(Interrupt::kStop);
    return Flow::kContinue;
  });
  EXPECT_EQ(run.trainer.fit().status, RunStatus::kInterrupted);
  clear_interrupt();
}

TEST(StagedRuns, StoppedAnywhereTheyGoOnToTheSameBytes) {
  const TemporaryFolder folder;
  fit(staged_recipe(), folder / "straight");
  for (const int64_t update : {3, 5, 6, 7, 9, 10, 12}) {
    const fs::path run = folder / std::to_string(update);
    interrupt_at(staged_recipe(), run, update);
    fit(staged_recipe(), run, true);
    expect_same_run(run, folder / "straight", kStagedUpdates, "stopped at " + std::to_string(update));
  }
}

TEST(StagedRuns, MemoryThatRunsOutInAnyStageChangesNoBit) {
  const TemporaryFolder folder;
  fit(staged_recipe(), folder / "straight");
  for (const int64_t update : {2, 6, 7, 9, 11}) {
    const fs::path path = folder / std::to_string(update);
    SmallRun run(staged_recipe(), {.output = path});
    run.trainer.on_update([&](const UpdateRecord& u) {
      if (u.update != update) return Flow::kContinue;
      CachingAllocator::process_wide().set_fault([seen = 0](int64_t, MemoryPhase phase) mutable {
        return phase == MemoryPhase::kBackward && ++seen == 3;
      });
      return Flow::kContinue;
    });
    const Summary summary = run.trainer.fit();
    CachingAllocator::process_wide().set_fault({});
    EXPECT_EQ(summary.oom_recoveries, 1) << update;
    EXPECT_EQ(model_digest(path, kStagedUpdates), model_digest(folder / "straight", kStagedUpdates))
        << update;
  }
}

TEST(StagedRuns, SeesawIsResumedExactlyAcrossItsChanges) {
  const TemporaryFolder folder;
  Recipe r = staged_recipe();
  r.batch.schedule = {.rule = BatchRule::kSeesaw};
  r.batch.limits.max_effective = 200;
  r.batch.effective = 50;
  fit(r, folder / "straight");
  const std::vector<double> batches = column(folder / "straight", "effective_batch");
  EXPECT_EQ(batches.front(), 50);
  EXPECT_EQ(*std::ranges::max_element(batches), 200);
  const auto updates = static_cast<int64_t>(batches.size());
  for (int64_t update = 10; update < updates; update += 2) {
    const fs::path run = folder / std::to_string(update);
    interrupt_at(r, run, update);
    fit(r, run, true);
    expect_same_run(run, folder / "straight", updates, "stopped at " + std::to_string(update));
  }
}

TEST(StagedRuns, TheLargestStageIsPlannedAndConfirmed) {
  const TemporaryFolder folder;
  Recipe r = staged_recipe();
  r.execution.micro_batch.reset();
  r.execution.memory.budget = *Budget::parse("12MiB");
  fit(r, folder / "found");
  const Json plan = test::read_json(folder / "found" / "plan.json");
  EXPECT_EQ(plan.at("effective_batch"), 120);
  EXPECT_EQ(plan.at("confirmed"), true);
  EXPECT_LT(plan.at("micro_batch").get<int64_t>(), 120) << "or this tests nothing";
  r.execution.micro_batch = plan.at("micro_batch").get<int64_t>();
  r.evaluation.micro_batch = plan.at("evaluation_micro_batch").get<int64_t>();
  fit(r, folder / "typed");
  EXPECT_EQ(model_digest(folder / "found", kStagedUpdates), model_digest(folder / "typed", kStagedUpdates));
}

TEST(StagedRuns, StagesThatDataOrLanesDoNotAllowAreNamed) {
  const TemporaryFolder folder;
  const auto refuse = [&](const Recipe& r) {
    return test::expect_error(ExitCode::kBadRecipe, [&] { fit(r, folder / "run"); });
  };
  Recipe r = staged_recipe();
  r.batch.schedule.stages[2].effective = 1001;
  EXPECT_EQ(refuse(r).where(), "batch.schedule[2].effective");
  r.batch.schedule.stages[2].effective = 1;
  r.execution.lanes = 2;
  EXPECT_EQ(refuse(r).where(), "batch.schedule[2].effective");
  r = staged_recipe();
  r.batch.schedule.stages = {{0, 69}, {280, 120}};
  EXPECT_TRUE(test::holds(
      test::expect_error(ExitCode::kBadRecipe,
                         [&] { fit(r, folder / "norm", false, test::SmallNet::Middle::kBatchNorm); })
          .what(),
      "micro-batch of one"));
}

TEST(StagedRuns, AStageThatTheRunDoesNotComeToIsSaid) {
  for (const int64_t begins : {999, 1000}) {
    std::vector<std::string> warnings;
    log::set_sink([&](const log::Record& record) { warnings.emplace_back(record.text); },
                  log::Level::kWarning);
    Recipe r = test::typed_recipe();
    r.stop = {.samples = 1000};
    r.batch.effective.reset();
    r.batch.schedule.stages = {{0, 20}, {begins, 40}};
    check_stages(r, BatchStages({{0, 20}, {begins, 40}}, 20, 40), 4000, 1);
    log::set_sink(log::terminal_sink(), log::Level::kWarning);
    EXPECT_EQ(warnings.size(), begins < 1000 ? 0u : 1u) << begins;
  }
}

TEST(StagedRuns, AResumeMayNotChangeTheStages) {
  const TemporaryFolder folder;
  interrupt_at(staged_recipe(), folder / "run", 8);
  Recipe r = staged_recipe();
  r.batch.schedule.stages[2].effective = 90;
  const Error error = test::expect_error(ExitCode::kBadRecipe, [&] { fit(r, folder / "run", true); });
  EXPECT_TRUE(test::holds(error.what(), "batch.schedule[2].effective: 80 → 90"));
}

// ---------------------------------------------------------------- batches that adapt

TEST(AdaptedBatch, MovesTowardsTheNoiseScale) {
  const BatchBounds bounds{.least = 64, .most = 4096, .whole = 32, .lanes = 1};
  const auto moved = [&](int64_t effective, double noise) {
    return adapted_batch(effective, {.samples = noise, .low = noise / 2, .high = noise * 2}, bounds);
  };
  EXPECT_EQ(moved(256, 300), 256) << "less than 1.2 times";
  EXPECT_EQ(moved(256, 320), 320);
  EXPECT_EQ(moved(256, 350), 320) << "whole micro-batches on the way";
  EXPECT_EQ(moved(256, 5000), 512) << "a factor of 2 at once";
  EXPECT_EQ(moved(256, 200), 200) << "no whole one is far enough";
  EXPECT_EQ(moved(256, 0), 128);
  EXPECT_EQ(moved(70, 10), 70) << "the bound is too near";
  EXPECT_EQ(moved(100, 10), 64);
  EXPECT_EQ(moved(4000, 1e9), 4000);
  EXPECT_EQ(moved(3000, 1e9), 4096);
}

TEST(AdaptedBatch, StaysWhereTheNoiseScaleHasNoUpperEnd) {
  const BatchBounds bounds{.least = 1, .most = 4096};
  EXPECT_EQ(adapted_batch(64, {.low = 1000}, bounds), 64);
  EXPECT_EQ(adapted_batch(64, {.samples = 1000.0, .low = 900, .high = {}}, bounds), 64);
}

TEST(AdaptedBatch, StaysInItsBoundsAndChangesByNoMoreThanAFactorOfTwo) {
  for (int64_t effective = 8; effective <= 200; effective += 3) {
    for (double noise = 0.5; noise < 1e6; noise *= 1.3) {
      for (const int64_t whole : {1, 6, 50, 1000}) {
        const BatchBounds bounds{.least = 8, .most = 200, .whole = whole, .lanes = 2};
        const int64_t changed = adapted_batch(effective, {.samples = noise, .low = 0, .high = 1e9}, bounds);
        ASSERT_GE(changed, 8);
        ASSERT_LE(changed, 200);
        ASSERT_LE(changed, 2 * effective);
        ASSERT_GE(2 * changed, effective);
        const double ratio = static_cast<double>(changed) / static_cast<double>(effective);
        ASSERT_TRUE(changed == effective || std::max(ratio, 1 / ratio) >= 1.2);
        ASSERT_TRUE(changed == effective || (ratio > 1) == (noise > static_cast<double>(effective)));
      }
    }
  }
}

// Until its end, or an update later than `interrupted_at`.
Summary train(const Recipe& r, const fs::path& folder, int64_t interrupted_at = 0) {
  Trainer trainer = Trainer::from_recipe(r, {.output = folder, .resume = true});
  trainer.on_update([&](const UpdateRecord& u) {
    if (u.update == interrupted_at) request_interrupt(Interrupt::kStop);
    return Flow::kContinue;
  });
  const Summary summary = trainer.fit();
  clear_interrupt();
  return summary;
}

TEST(AdaptingRuns, ChangeAtEvaluationsAndAreResumedExactly) {
  const TemporaryFolder folder;
  const Recipe r = test::adapting_recipe(folder);
  const Summary summary = train(r, folder / "straight");
  std::vector<int64_t> changes;
  for (const Json& row : read_metrics(folder / "straight" / "metrics.jsonl")) {
    if (row.at("kind") == "event") changes.push_back(row.at("update"));
  }
  ASSERT_GE(changes.size(), 1u) << "or this tests nothing";
  const std::vector<double> batches = column(folder / "straight", "effective_batch");
  EXPECT_GE(*std::ranges::min_element(batches), 16);
  EXPECT_LE(*std::ranges::max_element(batches), 100);
  const int64_t change = changes.front();
  for (const int64_t update : {change - 1, change, change + 1, summary.updates - 3}) {
    const fs::path run = folder / std::to_string(update);
    EXPECT_EQ(train(r, run, update).status, RunStatus::kInterrupted);
    train(r, run);
    expect_same_run(run, folder / "straight", summary.updates, "stopped at " + std::to_string(update));
  }
}

TEST(AdaptingRuns, WhatCannotBeMeasuredIsARecipeError) {
  const TemporaryFolder folder;
  const Recipe sound = test::adapting_recipe(folder);
  const auto refuse = [&](const Recipe& r) {
    return std::string(test::expect_error(ExitCode::kBadRecipe, [&] { train(r, folder / "run"); }).what());
  };
  Recipe r = sound;
  r.execution.micro_batch = 16;
  EXPECT_TRUE(test::holds(refuse(r), "single micro-batch"));
  r = sound;
  r.evaluation.every = *Interval::parse("1 minutes");
  EXPECT_TRUE(test::holds(refuse(r), "by the clock"));
  r = sound;
  r.execution.statistics = Statistics::kOff;
  EXPECT_TRUE(test::holds(refuse(r), "execution.statistics"));
  r = sound;
  r.data.validation.reset();
  EXPECT_TRUE(test::holds(refuse(r), "needs evaluations"));
  r = sound;
  r.batch.limits.max_effective = 2001;
  EXPECT_TRUE(test::holds(refuse(r), "batch.limits.max_effective"));
}

TEST(AdaptingRuns, TheSearchLeavesTheSmallestUpdateInTwoParts) {
  const TemporaryFolder folder;
  Recipe r = test::adapting_recipe(folder);
  r.stop.epochs = 0.1;
  r.execution.micro_batch.reset();
  train(r, folder / "run");
  EXPECT_EQ(test::read_json(folder / "run" / "plan.json").at("micro_batch"), 8);
}

}  // namespace
}  // namespace autotrain
