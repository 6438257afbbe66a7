// Optimizers, groups and schedules in whole runs, which go on exactly where they were stopped.
#include "autotrain/log.h"
#include "checkpoint/safetensors.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "support/small_run.h"

namespace autotrain {
namespace {

using test::column;
using test::fit;
using test::SmallRun;
using test::TemporaryFolder;
namespace fs = std::filesystem;

Recipe learning_recipe() {
  Recipe r = test::typed_recipe();
  r.checkpoint.every = *Interval::parse("5 updates");
  return r;
}

void expect_same_files(const fs::path& one, const fs::path& other, int64_t update, const std::string& why) {
  for (const char* const file : {"model.safetensors", "optimizer.safetensors"}) {
    const fs::path path = fs::path("checkpoints") / ("update-" + std::to_string(update)) / file;
    EXPECT_TRUE(fs::exists(one / path));
    EXPECT_TRUE(test::slurp(one / path) == test::slurp(other / path)) << why << ": " << path;
  }
}

void stop_at(const Recipe& r, const fs::path& folder, int64_t update) {
  SmallRun run(r, {.output = folder});
  run.trainer.on_update(
      [&](const UpdateRecord& u) { return u.update < update ? Flow::kContinue : Flow::kStop; });
  EXPECT_EQ(run.trainer.fit().updates, update);
}

TEST(Learning, AnyOptimizerWithGroupsIsResumedExactly) {
  for (const OptimizerRow& row : optimizer_table()) {
    const TemporaryFolder folder;
    Recipe r = learning_recipe();
    r.optimizer.algorithm = {row.spec.name, {}};
    r.optimizer.weight_decay = 0.1;
    const bool counts_together = row.spec.name == "nadamw" || row.spec.name == "lamb";
    r.optimizer.groups = {{.match = {"first.*"}, .lr_factor = 0.1, .weight_decay = 0.0},
                          {.match = {"second.bias"}, .every = counts_together ? 1 : 3}};
    fit(r, folder / "straight");
    stop_at(r, folder / "run", 13);
    fit(r, folder / "run", true);
    expect_same_files(folder / "straight", folder / "run", 30, row.spec.name);
  }
}

TEST(Learning, AGroupLearnsInItsOwnUpdatesAndNoOthers) {
  const TemporaryFolder folder;
  Recipe r = learning_recipe();
  r.optimizer.weight_decay = 0.1;  // which would show, too
  r.optimizer.groups = {{.match = {"first.*"}, .every = 3}};
  r.checkpoint.every = *Interval::parse("1 updates");
  r.stop = {};
  r.stop.updates = 7;
  fit(r, folder / "run");
  const auto weights = [&](int64_t update) {
    return read_safetensors(folder / "run" / "checkpoints" / ("update-" + std::to_string(update)) /
                            "model.safetensors");
  };
  for (int64_t update = 2; update <= 7; ++update) {
    const std::vector<NamedTensor> before = weights(update - 1), after = weights(update);
    for (size_t i = 0; i < after.size(); ++i) {
      const bool learns = !after[i].name.starts_with("first.") || update % 3 == 0;
      EXPECT_EQ(torch::equal(before[i].tensor, after[i].tensor), !learns) << after[i].name << ' ' << update;
    }
  }
  r.optimizer.groups[0].every = 8;
  std::string warnings;
  log::set_sink([&](const log::Record& record) { warnings += record.text; }, log::Level::kWarning);
  fit(r, folder / "short");
  log::set_sink(log::terminal_sink(), log::Level::kWarning);
  EXPECT_TRUE(test::holds(warnings, "first.* first learns in update 8, and the run has 7")) << warnings;
}

TEST(Learning, AnyScheduleIsResumedExactly) {
  for (const ScheduleRow& row : schedule_table()) {
    const TemporaryFolder folder;
    Recipe r = learning_recipe();
    r.schedule.shape = {row.spec.name, {}};
    for (const KeySpec& key : row.spec.keys) {
      if (key.name == "every") r.schedule.shape.parameters[key.name] = int64_t{7};
    }
    if (!row.spec.rises) r.schedule.warmup = *Span::parse("3 updates");
    fit(r, folder / "straight");
    stop_at(r, folder / "run", 13);
    fit(r, folder / "run", true);
    expect_same_files(folder / "straight", folder / "run", 30, row.spec.name);
    EXPECT_EQ(column(folder / "straight", "lr"), column(folder / "run", "lr")) << row.spec.name;
  }
}

// Nothing is ever an improvement: the rate is halved at every second evaluation.
Recipe plateau_recipe() {
  Recipe r = learning_recipe();
  r.evaluation.every = *Interval::parse("3 updates");
  r.schedule.shape = {
      "plateau",
      {{"factor", 0.5}, {"patience", int64_t{2}}, {"threshold", 100.0}, {"figure", std::string("loss")}}};
  return r;
}

TEST(Learning, ARateThatFollowsEvaluationsFallsWhenNothingImproves) {
  const TemporaryFolder folder;
  fit(plateau_recipe(), folder / "run");
  const auto rates = column(folder / "run", "lr");
  ASSERT_EQ(rates.size(), 30u);
  for (size_t update = 1; update < rates.size(); ++update) {
    // The first evaluation, at 3, is the best; those at 6 and 9 are not better.
    const bool falls = update >= 9 && (update - 9) % 6 == 0;
    EXPECT_DOUBLE_EQ(rates[update], rates[update - 1] * (falls ? 0.5 : 1)) << "after update " << update;
  }
}

TEST(Learning, ARateThatFallsThoughTheFigureImprovesIsToldWithTheThreshold) {
  const TemporaryFolder folder;
  std::string warnings;
  log::set_sink([&](const log::Record& record) { warnings += record.text; }, log::Level::kWarning);
  fit(plateau_recipe(), folder / "run");
  log::set_sink(log::terminal_sink(), log::Level::kWarning);
  EXPECT_TRUE(test::holds(warnings, "loss is better than the best that counted"));
  EXPECT_TRUE(test::holds(warnings, "by no more than schedule.threshold, 100; learning rate × 0.5"));
}

// One sample of twelve counts: over two epochs' border it may be missed for longer than an epoch takes.
TEST(Learning, ARunOfWhichFewSamplesCountGoesOnAndOneOfWhichNoneDoesEnds) {
  Recipe r = test::typed_recipe();
  r.batch.effective = 2;
  r.execution.micro_batch = 2;
  r.evaluation.monitor = "loss";
  r.stop = {};
  r.stop.updates = 60;
  const auto updates_where = [&r](int64_t counts) {
    torch::Tensor targets = torch::full({12}, -100, torch::kInt64);
    targets.narrow(0, 0, counts).fill_(1);
    const TensorDataset data(torch::randn({12, 4}), targets, 3);
    Trainer trainer(r, supervised(torch::nn::Linear(4, 3).ptr(), cross_entropy()), data,
                    {.write_files = false});
    return trainer.fit().updates;
  };
  EXPECT_EQ(updates_where(1), 60);
  const Error error = test::expect_error(ExitCode::kBadData, [&] { updates_where(0); });
  EXPECT_TRUE(test::holds(error.what(), "of the last 12 samples counts, as many as there are"));
}

TEST(Learning, ARateThatFollowsEvaluationsIsResumedExactlyWhereverItWasStopped) {
  const TemporaryFolder folder;
  fit(plateau_recipe(), folder / "straight");
  for (const int64_t update : {1, 6, 8, 9, 14, 29}) {  // of which some evaluate, and others would not have
    const fs::path run = folder / std::to_string(update);
    stop_at(plateau_recipe(), run, update);
    fit(plateau_recipe(), run, true);
    EXPECT_EQ(column(run, "lr"), column(folder / "straight", "lr")) << "stopped at " << update;
    expect_same_files(folder / "straight", run, 30, std::to_string(update));
  }
}

TEST(Learning, EvaluationsDuringWarmUpDoNotLowerTheRate) {
  const TemporaryFolder folder;
  Recipe r = plateau_recipe();
  r.schedule.warmup = *Span::parse("15 updates");
  fit(r, folder / "run");
  const auto rates = column(folder / "run", "lr");
  for (size_t update = 1; update < 15; ++update) EXPECT_GT(rates[update], rates[update - 1]);
  EXPECT_EQ(rates[20], rates[15]) << "15 is the best, 18 and 21 are not better";
  EXPECT_DOUBLE_EQ(rates[21], rates[15] / 2);
}

TEST(Learning, WhatARateCannotFollowIsARecipeError) {
  const TemporaryFolder folder;
  const auto refuse = [&](const Recipe& r) {
    return test::expect_error(ExitCode::kBadRecipe, [&] { fit(r, folder / "run"); });
  };
  Recipe r = plateau_recipe();
  r.schedule.shape.parameters["figure"] = std::string("acuracy");
  const Error slip = refuse(r);
  EXPECT_EQ(slip.where(), "schedule.figure");
  EXPECT_TRUE(test::holds(slip.what(), "accuracy"));
  r = plateau_recipe();
  r.evaluation.every = {};
  EXPECT_TRUE(test::holds(refuse(r).what(), "evaluation.every is never"));
  r.evaluation.every = *Interval::parse("1 minutes");
  EXPECT_TRUE(test::holds(refuse(r).what(), "by the clock"));
  const auto train = test::small_data(100);
  const Error error = test::expect_error(ExitCode::kBadRecipe, [&] {
    Trainer(plateau_recipe(), test::small_task(), train, {.output = folder / "alone"}).fit();
  });
  EXPECT_TRUE(test::holds(error.what(), "validation"));
}

// When the rate is lowered decides what is learned.
TEST(Learning, AResumeMayNotChangeWhenARateThatFollowsEvaluationsIsMeasured) {
  const TemporaryFolder folder;
  for (const bool follows : {true, false}) {
    Recipe r = plateau_recipe();
    if (!follows) r.schedule.shape = {"constant", {}};
    const fs::path run = folder / (follows ? "follows" : "constant");
    stop_at(r, run, 5);
    r.evaluation.every = *Interval::parse("4 updates");
    if (follows)
      EXPECT_TRUE(test::holds(test::expect_error(ExitCode::kBadRecipe, [&] { fit(r, run, true); }).what(),
                              "evaluation.every"));
    else
      EXPECT_EQ(fit(r, run, true).updates, 30);
  }
}

TEST(Learning, AScheduleThatReplacesPlateauBeginsWithTheWholeRate) {
  const TemporaryFolder folder;
  stop_at(plateau_recipe(), folder / "run", 20);
  const auto lowered = column(folder / "run", "lr");
  ASSERT_LT(lowered.back(), lowered.front());
  Recipe r = plateau_recipe();
  r.schedule.shape = {"constant", {}};
  SmallRun(r, {.output = folder / "run", .resume = true, .allow_change = true}).trainer.fit();
  const auto rates = column(folder / "run", "lr");
  EXPECT_DOUBLE_EQ(rates.back(), rates.front());
}

}  // namespace
}  // namespace autotrain
