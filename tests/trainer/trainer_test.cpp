#include "autotrain/trainer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "autotrain/log.h"
#include "base/interrupt.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"
#include "report/metrics_file.h"
#include "support/small_run.h"

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;
using test::column;
using test::fit;
using test::kTrialCalls;
using test::kWide;
using test::model_digest;
using test::read_json;
using test::recipe;
using test::SmallNet;
using test::SmallRun;
using test::TemporaryFolder;
using test::timeless_rows;
using test::typed_recipe;
namespace fs = std::filesystem;

class TrainerNets : public testing::TestWithParam<SmallNet::Middle> {};

TEST_P(TrainerNets, ASearchedRunEqualsTheRunWithItsPlanTypedIn) {
  const TemporaryFolder folder;
  fit(recipe(), folder / "searched", false, GetParam());
  const Json plan = read_json(folder / "searched" / "plan.json");
  EXPECT_EQ(plan.at("search").at("reason"), "in_band");
  EXPECT_GT(plan.at("window"), 1) << "the budget is meant to need accumulation";
  Recipe typed = recipe();
  typed.execution.micro_batch = plan.at("micro_batch").get<int64_t>();
  fit(typed, folder / "typed", false, GetParam());
  EXPECT_EQ(model_digest(folder / "searched", 30), model_digest(folder / "typed", 30));
  EXPECT_EQ(timeless_rows(folder / "searched"), timeless_rows(folder / "typed"));
}

TEST_P(TrainerNets, AStoppedAndResumedRunEqualsTheUninterruptedOne) {
  const TemporaryFolder folder;
  fit(typed_recipe(), folder / "straight", false, GetParam());
  for (const int64_t stop_at : {1, 8, 14, 29}) {
    const fs::path path = folder / ("stopped-" + std::to_string(stop_at));
    {
      SmallRun run(typed_recipe(), {.output = path}, GetParam());
      run.trainer.on_update(
          [&](const UpdateRecord& u) { return u.update < stop_at ? Flow::kContinue : Flow::kStop; });
      const Summary summary = run.trainer.fit();
      EXPECT_EQ(summary.updates, stop_at) << "not one more";
      EXPECT_EQ(summary.stopped_by, StopReason::kCallback);
    }
    const Summary rest = fit(typed_recipe(), path, true, GetParam());
    EXPECT_EQ(rest.updates, 30);
    EXPECT_EQ(model_digest(path, 30), model_digest(folder / "straight", 30)) << "stopped at " << stop_at;
    EXPECT_EQ(column(path, "loss"), column(folder / "straight", "loss"));
    EXPECT_EQ(test::noise_rows(path), test::noise_rows(folder / "straight"));
    EXPECT_EQ(read_json(path / "summary.json").at("noise_scale"),
              read_json(folder / "straight" / "summary.json").at("noise_scale"));
  }
}

INSTANTIATE_TEST_SUITE_P(Nets, TrainerNets,
                         testing::Values(SmallNet::Middle::kNothing, SmallNet::Middle::kDropout,
                                         SmallNet::Middle::kBatchNorm));

TEST(Trainer, AResumedRunWhoseLaterCheckpointIsBrokenGoesBackToTheOneBefore) {
  const TemporaryFolder folder;
  fit(typed_recipe(), folder / "straight");
  Recipe shorter = typed_recipe();
  fit(shorter, folder / "run");
  for (const int64_t update : {30, 28}) {
    const fs::path model =
        folder / "run" / "checkpoints" / ("update-" + std::to_string(update)) / "model.safetensors";
    fs::resize_file(model, fs::file_size(model) - 1);
  }
  EXPECT_EQ(fit(typed_recipe(), folder / "run", true).updates, 30);
  EXPECT_EQ(model_digest(folder / "run", 30), model_digest(folder / "straight", 30));
  EXPECT_EQ(timeless_rows(folder / "run"), timeless_rows(folder / "straight"))
      << "rows beyond update 21 were cut";
}

TEST(Trainer, StatisticsChangeNoBitOfWhatIsLearned) {
  const TemporaryFolder folder;
  Recipe off = typed_recipe(), on = typed_recipe();
  off.execution.statistics = Statistics::kOff;
  on.execution.statistics = Statistics::kOn;
  EXPECT_FALSE(fit(off, folder / "off").noise_scale);
  EXPECT_TRUE(fit(on, folder / "on").noise_scale);
  EXPECT_EQ(model_digest(folder / "off", 30), model_digest(folder / "on", 30));
  EXPECT_EQ(column(folder / "off", "grad_norm"), column(folder / "on", "grad_norm"));
  for (const Json& noise : test::noise_rows(folder / "off")) EXPECT_TRUE(noise.is_null());
  for (const Json& noise : test::noise_rows(folder / "on")) EXPECT_TRUE(noise.at("trace").is_number());
  fit(typed_recipe(), folder / "auto");
  EXPECT_EQ(test::noise_rows(folder / "auto"), test::noise_rows(folder / "on"));
  for (const char* const run : {"on", "auto"}) {
    const auto rows = test::noise_rows(folder / run, "preconditioned_noise");
    for (size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(rows[i].is_null(), i != 15) << run << ' ' << i;
  }
}

Recipe noise_recipe(int64_t updates) {
  Recipe r = typed_recipe();
  r.batch.effective = 20;
  r.execution.micro_batch = 10;
  r.stop = {};
  r.stop.updates = updates;
  r.evaluation.every = *Interval::parse("500 updates");
  r.checkpoint.every = *Interval::parse("500 updates");
  return r;
}

void fit_until(const Recipe& recipe, int64_t last, const fs::path& path, bool resume = false) {
  SmallRun run(recipe, {.output = path, .resume = resume});
  run.trainer.on_update(
      [&](const UpdateRecord& u) { return u.update < last ? Flow::kContinue : Flow::kStop; });
  run.trainer.fit();
}

// Long enough for the scale in the optimizer's metric to be known.
TEST(Trainer, AResumedRunHasTheSameNoiseInTheOptimizersMetric) {
  const TemporaryFolder folder;
  const Recipe recipe = noise_recipe(270);
  fit(recipe, folder / "straight");
  fit_until(recipe, 150, folder / "stopped");
  fit(recipe, folder / "stopped", true);
  const Json scale = read_json(folder / "straight" / "summary.json").at("preconditioned_noise_scale");
  ASSERT_TRUE(scale.is_object()) << "16 updates that were measured are enough";
  EXPECT_NE(scale, read_json(folder / "straight" / "summary.json").at("noise_scale"));
  EXPECT_EQ(read_json(folder / "stopped" / "summary.json").at("preconditioned_noise_scale"), scale);
  EXPECT_EQ(test::noise_rows(folder / "stopped", "preconditioned_noise"),
            test::noise_rows(folder / "straight", "preconditioned_noise"));
}

// A run that is stopped has read the figures of its last update before the next window; one that goes on has
// not. Which windows are measured must not hang on it.
TEST(Trainer, ALongRunMeasuresNoiseMoreSeldomAlsoWhereItWasResumed) {
  const TemporaryFolder folder;
  const Recipe recipe = noise_recipe(1032);
  fit_until(recipe, 1000, folder / "begun");  // what all runs have in common
  const auto begun = [&](const std::string& name) {
    fs::copy(folder / "begun", folder / name, fs::copy_options::recursive);
    return folder / name;
  };
  fit(recipe, begun("straight"), true);
  const auto rows = test::noise_rows(folder / "straight");
  ASSERT_EQ(rows.size(), 1032u);
  for (size_t window = 0; window < rows.size(); ++window)
    EXPECT_EQ(rows[window].is_null(), window >= 1024 && window % 2 == 0) << window;
  const Json state = read_json(folder / "straight" / "checkpoints" / "update-1032" / "state.json").at("run");
  const auto windows = [&](const std::string& noise) {
    const auto full = static_cast<int64_t>(state.at(noise + "_traces").size()) - 1;
    return full * state.at(noise + "_updates_each").get<int64_t>() +
           state.at(noise + "_updates_in_last").get<int64_t>();
  };
  EXPECT_EQ(windows("noise"), 1032) << "a window stands for those that were not measured";
  EXPECT_EQ(windows("preconditioned_noise"), 1024) << "of every 16th";
  for (const int64_t stop_at : {1023, 1024, 1025}) {
    const fs::path path = begun(std::to_string(stop_at));
    fit_until(recipe, stop_at, path, true);
    fit(recipe, path, true);
    EXPECT_EQ(test::noise_rows(path), rows) << stop_at;
    EXPECT_EQ(read_json(path / "summary.json").at("noise_scale"),
              read_json(folder / "straight" / "summary.json").at("noise_scale"));
  }
}

TEST(Trainer, NoiseThatIsMeasuredLateIsMeasuredInEveryWindowAtFirst) {
  const TemporaryFolder folder;
  Recipe recipe = noise_recipe(1032);
  recipe.execution.statistics = Statistics::kOff;
  fit_until(recipe, 1028, folder / "run");
  recipe.execution.statistics = Statistics::kOn;
  fit(recipe, folder / "run", true);
  const auto rows = test::noise_rows(folder / "run");
  for (size_t window = 0; window < rows.size(); ++window)
    EXPECT_EQ(rows[window].is_null(), window < 1028) << window;
}

TEST(Trainer, OfPlainOptimizersThereIsNoNoiseInAnotherMetric) {
  const TemporaryFolder folder;
  Recipe r = typed_recipe();
  r.optimizer.algorithm = {"sgd", {{"momentum", 0.9}}};
  fit(r, folder / "run");
  for (const Json& noise : test::noise_rows(folder / "run")) EXPECT_FALSE(noise.is_null());
  for (const Json& noise : test::noise_rows(folder / "run", "preconditioned_noise"))
    EXPECT_TRUE(noise.is_null());
}

TEST(Trainer, StatisticsNeedAnUpdateOfSeveralMicroBatches) {
  const TemporaryFolder folder;
  Recipe r = typed_recipe();
  r.execution.micro_batch = 100;
  fit(r, folder / "auto");
  for (const Json& noise : test::noise_rows(folder / "auto")) EXPECT_TRUE(noise.is_null());
  r.execution.statistics = Statistics::kOn;
  test::expect_error(ExitCode::kBadRecipe, [&] { fit(r, folder / "on"); });
}

TEST(Trainer, TheCutChangesLossAndGradientByRoundingOnly) {
  const TemporaryFolder folder;
  std::vector<std::vector<double>> losses, norms;
  for (const int64_t micro : {7, 32, 100}) {
    Recipe r = recipe();
    r.execution.memory.budget = *Budget::parse("256MiB");
    r.execution.micro_batch = micro;
    const fs::path path = folder / std::to_string(micro);
    fit(r, path, false, SmallNet::Middle::kNothing);
    losses.push_back(column(path, "loss"));
    norms.push_back(column(path, "grad_norm"));
  }
  for (size_t update = 0; update < 3; ++update) {
    for (size_t i = 1; i < losses.size(); ++i) {
      EXPECT_NEAR(losses[i][update] / losses[0][update], 1, 1e-5);
      EXPECT_NEAR(norms[i][update] / norms[0][update], 1, 1e-5);
    }
  }
}

TEST(Trainer, LearnsAndLeavesTheFolderThatWasPromised) {
  const TemporaryFolder folder;
  const Summary summary = fit(recipe(), folder / "run");
  EXPECT_EQ(summary.status, RunStatus::kCompleted);
  EXPECT_EQ(summary.stopped_by, StopReason::kEpochs);
  EXPECT_EQ(summary.updates, 30);
  EXPECT_EQ(summary.samples, 3000);
  const auto losses = column(folder / "run", "loss");
  EXPECT_LT(losses.back(), losses.front());
  const Json plan = read_json(folder / "run" / "plan.json");
  for (const char* key :
       {"device", "precision", "world_size", "budget_bytes", "target", "effective_batch", "micro_batch",
        "window", "cut", "fill", "peak_bytes", "confirmed", "lr", "search", "origin"}) {
    EXPECT_TRUE(plan.contains(key)) << key;
  }
  const Json written = read_json(folder / "run" / "summary.json");
  for (const char* key : {"status", "exit_code", "error", "stopped_by", "updates", "epochs", "samples",
                          "seconds", "samples_per_second", "final", "best", "peak_bytes", "oom_recoveries",
                          "skipped_updates", "data_wait_fraction"}) {
    EXPECT_TRUE(written.contains(key)) << key;
  }
  EXPECT_LE(written.at("peak_bytes").get<int64_t>(), plan.at("budget_bytes").get<int64_t>());
  EXPECT_TRUE(fs::exists(folder / "run" / "recipe.yaml"));
  EXPECT_EQ(read_safetensors(folder / "run" / "checkpoints" / "update-30" / "model.safetensors").size(), 4u);
}

TEST(Trainer, TheTimeOfEveryUpdateIsAccountedFor) {
  const TemporaryFolder folder;
  Recipe r = test::typed_recipe();
  r.execution.trace = {4, 6};
  r.execution.loader.workers = 2;
  const Summary summary = fit(r, folder / "run");
  std::map<std::string, double> sums;
  double training = 0;
  std::vector<double> told;  // of each update's time, the share that its activities have
  for (const Json& row : read_metrics(folder / "run" / "metrics.jsonl")) {
    if (row.at("kind") != "update") continue;
    double whole = 0;
    for (const auto& [name, seconds] : row.at("activity_seconds").items()) {
      EXPECT_GE(seconds.get<double>(), 0) << name;
      whole += seconds.get<double>();
      sums[name] += seconds.get<double>();
    }
    told.push_back(whole * row.at("samples_per_second").get<double>() / 100);
    for (const char* name : {"evaluation", "checkpoint"})
      EXPECT_EQ(row.at("activity_seconds").at(name).get<double>(), 0) << name << " is no part of an update";
    training = row.at("training_seconds").get<double>();
  }
  for (const double share : told) EXPECT_NEAR(share, 1, 1e-6) << "an update's time is all of its activities'";
  EXPECT_GT(sums.at("forward") + sums.at("backward"), sums.at("copy"));
  double trained = 0;
  for (const auto& [name, seconds] : sums) {
    trained += seconds;
    EXPECT_LE(seconds, summary.activity_seconds.at(name) + 1e-9) << name;
  }
  EXPECT_NEAR(trained, training, 1e-6);
  for (const char* name : {"evaluation", "checkpoint"})
    EXPECT_GT(summary.activity_seconds.at(name), 0) << name;

  // The trace shows updates 4 to 6 and nothing else, without gaps or overlaps on a track.
  std::map<int, double> ends;
  std::set<int64_t> updates;
  std::set<std::string> names;
  const Json trace = read_json(folder / "run" / "trace.json");
  for (const Json& event : trace.at("traceEvents")) {
    names.insert(event.at("name"));
    if (event.at("ph") != "X") continue;
    const int track = event.at("tid");
    EXPECT_GE(event.at("ts").get<double>(), (ends.contains(track) ? ends[track] : 0) - 1);
    ends[track] = event.at("ts").get<double>() + event.at("dur").get<double>();
    if (event.at("args").contains("update")) updates.insert(event.at("args").at("update").get<int64_t>());
  }
  EXPECT_EQ(updates, (std::set<int64_t>{4, 5, 6}));
  EXPECT_GE(ends.size(), 2U) << "the step and at least one loader thread";
  for (const char* name : {"forward", "backward", "update", "load"})
    EXPECT_TRUE(names.contains(name)) << name;
}

TEST(Trainer, AFolderWithARunIsRefusedWithoutResume) {
  const TemporaryFolder folder;
  fit(recipe(), folder / "run");
  const Error error = test::expect_error(ExitCode::kUsage, [&] { fit(recipe(), folder / "run"); });
  EXPECT_TRUE(test::holds(error.what(), "--resume"));
}

TEST(Trainer, ResumeWithoutACheckpointStartsAnew) {
  const TemporaryFolder folder;
  folder.write("run/recipe.yaml", "");
  folder.write("run/metrics.jsonl", "{\"kind\":\"update\",\"update\":1}\n{\"kind\":\"upd");
  EXPECT_EQ(fit(recipe(), folder / "run", true).updates, 30);
  EXPECT_EQ(column(folder / "run", "update").size(), 30u) << "rows of a run without checkpoint are gone";
}

TEST(Trainer, ResumingAFinishedRunChangesNothing) {
  const TemporaryFolder folder;
  for (const StopReason stop : {StopReason::kEpochs, StopReason::kPatience}) {
    Recipe r = typed_recipe();
    if (stop == StopReason::kPatience) {
      r.stop.patience = 2;
      r.stop.min_delta = 100;
      r.evaluation.every = *Interval::parse("3 updates");
    }
    const fs::path path = folder / to_string(stop);
    const Summary first = fit(r, path);
    EXPECT_EQ(first.stopped_by, stop);
    const std::string metrics = test::slurp(path / "metrics.jsonl");
    const fs::path state = path / "checkpoints" / ("update-" + std::to_string(first.updates)) / "state.json";
    const auto written = fs::last_write_time(state);
    const Summary again = fit(r, path, true);
    EXPECT_EQ(again.updates, first.updates);
    EXPECT_EQ(again.stopped_by, stop);
    EXPECT_EQ(again.final, first.final);
    EXPECT_EQ(test::slurp(path / "metrics.jsonl"), metrics);
    EXPECT_EQ(fs::last_write_time(state), written);
  }
}

TEST(Trainer, AResumeThatHasNothingLeftToDoSaysByWhichStop) {
  const TemporaryFolder folder;
  fit(typed_recipe(), folder / "run");
  std::string warnings;
  log::set_sink([&](const log::Record& record) { warnings += record.text; }, log::Level::kWarning);
  fit(typed_recipe(), folder / "run", true);
  log::set_sink(log::terminal_sink(), log::Level::kWarning);
  EXPECT_TRUE(test::holds(warnings, "no update is left to make"));
  EXPECT_TRUE(test::holds(warnings, "by stop.epochs at update 30"));
}

// Asks for a stop in the middle of the evaluation that follows an update.
class StopInEvaluation final : public RunObserver {
 public:
  explicit StopInEvaluation(int64_t update) : update_(update) {}
  void on_update(const UpdateRecord& u, int64_t) override { armed_ = u.update == update_; }
  void on_evaluation_progress(int64_t, int64_t) override {
    if (armed_) request_interrupt(Interrupt::kStop);
  }

 private:
  int64_t update_;
  bool armed_ = false;
};

TEST(Trainer, AnEvaluationThatASignalStoppedComesFirstOnResume) {
  const TemporaryFolder folder;
  Recipe r = typed_recipe();
  r.evaluation.every = *Interval::parse("6 updates");
  r.evaluation.micro_batch = 30;
  fit(r, folder / "straight");
  for (const int64_t update : {12, 30}) {  // one on schedule, and the last one
    const fs::path path = folder / std::to_string(update);
    StopInEvaluation observer(update);
    const Summary stopped = SmallRun(r, {.output = path, .observer = &observer}).trainer.fit();
    clear_interrupt();
    EXPECT_EQ(stopped.status, RunStatus::kInterrupted) << update;
    EXPECT_EQ(stopped.updates, update);
    EXPECT_EQ(fit(r, path, true).status, RunStatus::kCompleted);
    EXPECT_EQ(timeless_rows(path), timeless_rows(folder / "straight")) << update;
    EXPECT_EQ(model_digest(path, 30), model_digest(folder / "straight", 30));
    EXPECT_EQ(read_json(path / "summary.json").at("best"),
              read_json(folder / "straight" / "summary.json").at("best"));
  }
}

TEST(Trainer, AResumeMayTypeAnotherEffectiveBatch) {
  const TemporaryFolder folder;
  Recipe first = recipe();
  first.stop.epochs = 1;
  fit(first, folder / "run");
  Recipe changed = first;
  changed.batch.effective = 50;
  changed.stop.epochs = 2;
  const Summary summary =
      SmallRun(changed, {.output = folder / "run", .resume = true, .allow_change = true}).trainer.fit();
  EXPECT_EQ(summary.samples, 2000) << "two epochs of 1000, whatever the updates of the first one had";
  EXPECT_EQ(summary.updates, 10 + 20);
  const Json plan = read_json(folder / "run" / "plan.json");
  EXPECT_EQ(plan.at("effective_batch"), 50);
  EXPECT_NEAR(plan.at("lr").at("scaled").get<double>(), first.optimizer.lr * 50 / 32, 1e-12);
}

TEST(Trainer, AResumeMayTypeAnotherLearningRateAndAnotherMonitor) {
  const TemporaryFolder folder;
  Recipe first = recipe();
  first.stop.epochs = 1;
  fit(first, folder / "run");
  Recipe changed = first;
  changed.optimizer.lr = first.optimizer.lr / 4;
  changed.evaluation.monitor = "accuracy";
  changed.stop.epochs = 2;
  const Summary summary =
      SmallRun(changed, {.output = folder / "run", .resume = true, .allow_change = true}).trainer.fit();
  EXPECT_EQ(summary.status, RunStatus::kCompleted);
  const Json plan = read_json(folder / "run" / "plan.json");
  EXPECT_NEAR(plan.at("lr").at("base").get<double>(), changed.optimizer.lr, 1e-15);
  const std::vector<Json> rows = read_metrics(folder / "run" / "metrics.jsonl");
  const auto last =
      std::find_if(rows.rbegin(), rows.rend(), [](const Json& row) { return row.at("kind") == "update"; });
  EXPECT_NEAR(last->at("lr").get<double>(), plan.at("lr").at("scaled").get<double>(), 1e-12);
  std::vector<std::string> changes;
  for (const Json& row : rows) {
    if (row.at("kind") != "event") continue;
    EXPECT_EQ(row.at("event"), "resumed");
    EXPECT_EQ(row.at("update"), summary.updates / 2);
    const std::string detail = row.at("detail");
    changes.push_back(detail.substr(0, detail.find(':')));
  }
  EXPECT_EQ(changes, (std::vector<std::string>{"optimizer.lr", "stop.epochs"}));
}

TEST(Trainer, StatesThatTakeMostOfTheBudgetCanBeResumed) {
  const TemporaryFolder folder;
  Recipe r = typed_recipe();
  // Parameters, moments and gradients of 90,000 weights: 1.4 MiB, and as much again would not fit.
  r.execution.memory.budget = *Budget::parse("12MiB");
  r.execution.memory.target_low = 0.01;
  r.execution.memory.target_high = 0.99;
  r.execution.micro_batch = 50;
  fit(r, folder / "straight");
  {
    SmallRun run(r, {.output = folder / "run"});
    run.trainer.on_update([](const UpdateRecord& u) { return u.update < 9 ? Flow::kContinue : Flow::kStop; });
    run.trainer.fit();
  }
  EXPECT_EQ(fit(r, folder / "run", true).updates, 30);
  EXPECT_EQ(model_digest(folder / "run", 30), model_digest(folder / "straight", 30));
}

TEST(Trainer, APlanAloneMakesNoFolder) {
  const TemporaryFolder folder;
  SmallRun run(recipe(), {.output = folder / "run"});
  run.trainer.plan();
  EXPECT_FALSE(fs::exists(folder / "run"));
}

// `resume` with nothing to resume begins a run, whose folder says how it ended.
TEST(Trainer, AResumeOfNothingThatFailsSaysSoInItsFolder) {
  const TemporaryFolder folder;
  Recipe r = recipe();
  r.evaluation.monitor = "unknown";
  test::expect_error(ExitCode::kBadRecipe, [&] { fit(r, folder / "run", /*resume=*/true); });
  EXPECT_EQ(read_json(folder / "run" / "summary.json").at("status"), "failed");
}

TEST(Trainer, IsOneRun) {
  const TemporaryFolder folder;
  SmallRun run(recipe(), {.output = folder / "run"});
  run.trainer.fit();
  const Error error = test::expect_error(ExitCode::kUsage, [&] { run.trainer.fit(); });
  EXPECT_TRUE(test::holds(error.what(), "another trainer"));
}

TEST(Trainer, ParametersOrStateThatDoNotFitAreExplained) {
  for (const char* budget : {"256KiB", "1200KiB"}) {  // not the weights; the weights, but not the moments
    Recipe r = recipe();
    r.execution.memory.budget = *Budget::parse(budget);
    const Error error = test::expect_error(ExitCode::kDoesNotFit, [&] {
      const auto train = test::small_data(100);
      Trainer(r, test::small_task(SmallNet::Middle::kNothing, 1 << 14), train, {.write_files = false}).fit();
    });
    EXPECT_TRUE(test::holds(error.what(), "execution.memory.budget")) << budget;
    EXPECT_TRUE(test::holds(error.what(), "need at least ")) << budget;
    EXPECT_TRUE(test::holds(error.hint(), "raise execution.memory.budget above ")) << budget;
  }
}

TEST(Trainer, ResumeRefusesToChangeWhatIsLearnedUnlessAllowed) {
  const TemporaryFolder folder;
  Recipe first = recipe();
  first.stop.epochs = 1;
  fit(first, folder / "run");
  Recipe changed = first;
  changed.optimizer.lr = 0.5;
  const Json summary = read_json(folder / "run" / "summary.json");
  const Error error = test::expect_error(ExitCode::kBadRecipe, [&] { fit(changed, folder / "run", true); });
  EXPECT_TRUE(test::holds(error.what(), "optimizer.lr: 0.0005 → 0.5"));
  EXPECT_EQ(read_json(folder / "run" / "summary.json"), summary) << "a resume that is refused loses nothing";
  Recipe longer = first;
  longer.stop.epochs = 2;
  EXPECT_EQ(SmallRun(longer, {.output = folder / "run", .resume = true, .allow_change = true})
                .trainer.fit()
                .updates,
            20);
}

// As of a run that is killed while it is extended.
TEST(Trainer, ARunThatGoesOnHasNoSummaryOfItsFormerEnd) {
  const TemporaryFolder folder;
  Recipe first = recipe();
  first.stop.epochs = 1;
  fit(first, folder / "run");
  ASSERT_TRUE(fs::exists(folder / "run" / "summary.json"));
  Recipe longer = first;
  longer.stop.epochs = 2;
  SmallRun run(longer, {.output = folder / "run", .resume = true, .allow_change = true});
  int64_t without = 0;
  run.trainer.on_update([&](const UpdateRecord&) {
    without += fs::exists(folder / "run" / "summary.json") ? 0 : 1;
    return Flow::kContinue;
  });
  EXPECT_EQ(run.trainer.fit().updates, 20);
  EXPECT_EQ(without, 10);
  EXPECT_EQ(read_json(folder / "run" / "summary.json").at("updates"), 20);
}

TEST(Trainer, ResumeWithAnotherMicroBatchKeepsTheEffectiveBatch) {
  const TemporaryFolder folder;
  Recipe first = recipe();
  first.batch.effective.reset();
  first.batch.limits.max_effective = 40;
  {
    SmallRun run(first, {.output = folder / "run"}, SmallNet::Middle::kNothing);
    run.trainer.on_update([](const UpdateRecord& u) { return u.update < 5 ? Flow::kContinue : Flow::kStop; });
    run.trainer.fit();
  }
  const int64_t effective = read_json(folder / "run" / "plan.json").at("effective_batch");
  Recipe other = first;
  other.execution.micro_batch = 9;
  fit(other, folder / "run", true, SmallNet::Middle::kNothing);
  const Json plan = read_json(folder / "run" / "plan.json");
  EXPECT_EQ(plan.at("micro_batch"), 9) << "what the user typed wins";
  EXPECT_EQ(plan.at("effective_batch"), effective) << "what was learned with stays";
}

TEST(Trainer, AResumeWithAnotherPlanHasAPeakOfItsOwn) {
  const TemporaryFolder folder;
  Recipe first = recipe();
  first.execution.memory.budget = *Budget::parse(test::kSmallBudget);
  {
    SmallRun run(first, {.output = folder / "run"}, SmallNet::Middle::kNothing);
    run.trainer.on_update([](const UpdateRecord& u) { return u.update < 5 ? Flow::kContinue : Flow::kStop; });
    run.trainer.fit();
  }
  const int64_t before = read_json(folder / "run" / "summary.json").at("peak_bytes");
  Recipe tight = first;
  tight.execution.micro_batch = 10;
  const Summary summary = fit(tight, folder / "run", true, SmallNet::Middle::kNothing);
  EXPECT_GT(summary.updates, 5);
  EXPECT_LT(summary.peak_bytes, before) << "in micro-batches of 10, not of 100";
  EXPECT_TRUE(test::holds(test::slurp(folder / "run" / "metrics.jsonl"), "the plan is another one"));
}

TEST(Trainer, ResumeRefusesACheckpointOfAnotherModel) {
  const TemporaryFolder folder;
  Recipe r = recipe();
  r.stop.epochs = 1;
  fit(r, folder / "run");
  const auto train = test::small_data(1000);
  Recipe longer = r;
  longer.stop.epochs = 2;
  Trainer other(longer,
                supervised(std::make_shared<SmallNet>(SmallNet::Middle::kBatchNorm, 6, 8), cross_entropy()),
                train, {.output = folder / "run", .resume = true, .allow_change = true});
  const Error error = test::expect_error(ExitCode::kBadData, [&] { other.fit(); });
  EXPECT_TRUE(test::holds(error.what(), "not in the file: norm.bias"));
  EXPECT_TRUE(test::holds(error.what(), "first.weight [8192, 6] → [8, 6]"));
}

TEST(Trainer, ASignalStopsWithACheckpointAndTheRunGoesOnFromIt) {
  const TemporaryFolder folder;
  fit(typed_recipe(), folder / "straight");
  {
    SmallRun run(typed_recipe(), {.output = folder / "run"});
    run.trainer.on_update([](const UpdateRecord& u) {
      if (u.update == 10) request_interrupt(Interrupt::kStop);
      return Flow::kContinue;
    });
    const Summary summary = run.trainer.fit();
    clear_interrupt();
    EXPECT_EQ(summary.status, RunStatus::kInterrupted);
    EXPECT_EQ(summary.exit_code, 75);
    EXPECT_LE(summary.updates, 11);
  }
  EXPECT_EQ(fit(typed_recipe(), folder / "run", true).status, RunStatus::kCompleted);
  EXPECT_EQ(model_digest(folder / "run", 30), model_digest(folder / "straight", 30));
}

TEST(Trainer, StopsByPatience) {
  const TemporaryFolder folder;
  Recipe r = recipe();
  r.optimizer.lr = 1e-12;  // nothing improves
  r.stop.epochs = 100;
  r.stop.patience = 3;
  r.stop.min_delta = 0.01;
  r.evaluation.every = *Interval::parse("2 updates");
  const Summary summary = fit(r, folder / "run");
  EXPECT_EQ(summary.stopped_by, StopReason::kPatience);
  EXPECT_EQ(summary.updates, 8) << "the first evaluation is the best, three do not improve on it";
  EXPECT_EQ(summary.best.at("update"), 2);
}

TEST(Trainer, TheBestIsTheBestByHoweverLittle) {
  const TemporaryFolder folder;
  Recipe r = recipe();
  r.stop.patience = 100;
  r.stop.min_delta = 50;  // for patience, nothing ever improves again
  const Summary summary = fit(r, folder / "run");
  EXPECT_EQ(summary.best.at("loss"), summary.final.at("loss")) << "the loss falls from epoch to epoch";
  EXPECT_EQ(summary.best.at("update"), 30);
}

TEST(Trainer, StopsByUpdatesSamplesAndTime) {
  const TemporaryFolder folder;
  Recipe r = recipe();
  r.stop = {};
  r.stop.updates = 5;
  EXPECT_EQ(fit(r, folder / "a").updates, 5);
  r.stop = {};
  r.stop.samples = 730;
  EXPECT_EQ(fit(r, folder / "b").updates, 7);
  r.stop = {};
  r.stop.minutes = 1e-4;
  const Summary timed = fit(r, folder / "c");
  EXPECT_EQ(timed.stopped_by, StopReason::kMinutes);
  EXPECT_GT(timed.updates, 0);
}

TEST(Trainer, TheRemainderIsTrainedOnlyWhenKept) {
  const TemporaryFolder folder;
  Recipe r = recipe();
  r.stop.epochs = 1.25;
  EXPECT_EQ(fit(r, folder / "drop").samples, 1200);
  r.stop.keep_last = true;
  const Summary kept = fit(r, folder / "keep");
  EXPECT_EQ(kept.samples, 1250);
  EXPECT_EQ(kept.updates, 13);
}

TEST(Trainer, AnUnknownMonitorIsARecipeError) {
  const TemporaryFolder folder;
  Recipe r = recipe();
  r.evaluation.monitor = "acuracy";
  const Error error = test::expect_error(ExitCode::kBadRecipe, [&] { fit(r, folder / "run"); });
  EXPECT_TRUE(test::holds(error.what(), "accuracy"));
  EXPECT_FALSE(fs::exists(folder / "run" / "metrics.jsonl")) << "known before anything is trained";
  EXPECT_EQ(read_json(folder / "run" / "summary.json").at("status"), "failed");
}

// SmallNet whose loss misbehaves in some windows.
class Troubled final : public Task {
 public:
  explicit Troubled(std::function<torch::Tensor(torch::Tensor sum, int64_t call)> trouble)
      : trouble_(std::move(trouble)) {}
  torch::nn::Module& module() override { return inner_->module(); }
  LossTerms loss(const Batch& batch) override {
    LossTerms terms = inner_->loss(batch);
    terms.sum = trouble_(terms.sum, module().is_training() ? calls_++ : -1);
    return terms;
  }

 private:
  std::unique_ptr<Task> inner_ = test::small_task();
  std::function<torch::Tensor(torch::Tensor, int64_t)> trouble_;
  int64_t calls_ = 0;
};

Summary fit_troubled(const Recipe& r, const fs::path& folder,
                     std::function<torch::Tensor(torch::Tensor, int64_t)> trouble) {
  const auto train = test::small_data(1000);
  return Trainer(r, std::make_unique<Troubled>(std::move(trouble)), train, {.output = folder}).fit();
}

Recipe troubled_recipe() {
  Recipe r = recipe();
  r.execution.micro_batch = 100;
  r.execution.memory.target_low = 0.01;
  r.execution.memory.target_high = 0.9;
  r.stop = {};
  r.stop.updates = 12;
  r.stop.max_skipped = 3;
  return r;
}

TEST(Trainer, ASkippedWindowMovesTheCursorAndNothingElse) {
  const TemporaryFolder folder;
  const Summary summary = fit_troubled(
      troubled_recipe(), folder / "run",
      [](torch::Tensor sum, int64_t call) { return call == kTrialCalls + 4 ? sum * INFINITY : sum; });
  EXPECT_EQ(summary.updates, 12);
  EXPECT_EQ(summary.skipped_updates, 1);
  EXPECT_EQ(summary.samples, 1300);
  const auto rows = read_metrics(folder / "run" / "metrics.jsonl");
  const auto event =
      std::find_if(rows.begin(), rows.end(), [](const Json& row) { return row.at("kind") == "event"; });
  ASSERT_NE(event, rows.end());
  EXPECT_EQ(event->at("event"), "skipped");
  EXPECT_EQ(event->at("update"), 4) << "updates count only what was applied";
}

// SmallNet with a penalty that is not finite in some windows, whose norms without it are.
class BadPenalty final : public Task {
 public:
  explicit BadPenalty(std::set<int64_t> bad) : bad_(std::move(bad)) {}
  torch::nn::Module& module() override { return inner_->module(); }
  LossTerms loss(const Batch& batch) override { return inner_->loss(batch); }
  torch::Tensor penalty() override {
    const torch::Tensor sum = module().parameters()[0].sum();
    return bad_.contains(calls_++) ? sum * NAN : sum * 0;
  }

 private:
  std::unique_ptr<Task> inner_ = test::small_task();
  std::set<int64_t> bad_;
  int64_t calls_ = 0;
};

TEST(Trainer, TheNoiseOfASkippedWindowDoesNotCount) {
  const TemporaryFolder folder;
  Recipe r = troubled_recipe();
  r.execution.micro_batch = 50;
  r.stop.updates = 48;
  const auto train = test::small_data(1000);
  constexpr int64_t kPenaltiesOfTrials = 2;
  const int64_t second_of_three = kPenaltiesOfTrials + 31;
  const Summary summary = Trainer(r, std::make_unique<BadPenalty>(std::set<int64_t>{second_of_three}), train,
                                  {.output = folder / "run"})
                              .fit();
  EXPECT_EQ(summary.skipped_updates, 1);
  const auto rows = test::noise_rows(folder / "run", "preconditioned_noise");
  EXPECT_EQ(std::ranges::count_if(rows, [](const Json& noise) { return !noise.is_null(); }), 2);
  const Json state = read_json(folder / "run" / "checkpoints" / "update-48" / "state.json").at("run");
  EXPECT_EQ(state.at("preconditioned_noise_traces").size(), 2u);
  EXPECT_EQ(state.at("noise_traces").size(), 48u);
}

TEST(Trainer, ManySkipsInARowAreDivergenceThatNamesTheParameter) {
  const TemporaryFolder folder;
  const Error error = test::expect_error(ExitCode::kDiverged, [&] {
    fit_troubled(troubled_recipe(), folder / "run",
                 [](torch::Tensor sum, int64_t call) { return call > 6 ? sum * NAN : sum; });
  });
  EXPECT_TRUE(test::holds(error.what(), "3 updates in a row"));
  EXPECT_TRUE(test::holds(error.what(), "first.weight"));
  const Json summary = read_json(folder / "run" / "summary.json");
  EXPECT_EQ(summary.at("status"), "failed");
  EXPECT_EQ(summary.at("exit_code"), 76);
}

TEST(Trainer, OutOfMemoryInTrainingIsExplained) {
  const TemporaryFolder folder;
  const Error error = test::expect_error(ExitCode::kDoesNotFit, [&] {
    fit_troubled(troubled_recipe(), folder / "run", [](torch::Tensor sum, int64_t call) {
      if (call > 6) torch::zeros({1 << 28});
      return sum;
    });
  });
  EXPECT_TRUE(test::holds(error.what(), "training, phase forward"));
  EXPECT_TRUE(test::holds(error.what(), "largest blocks then"));
}

TEST(Trainer, ErrorsOfTheTaskSayWhoseTheyAre) {
  const TemporaryFolder folder;
  test::expect_error(ExitCode::kBrokenContract, [&] {
    fit_troubled(troubled_recipe(), folder / "run", [](torch::Tensor sum, int64_t call) {
      if (call > 6) throw std::out_of_range("mine");
      return sum;
    });
  });
  EXPECT_EQ(read_json(folder / "run" / "summary.json").at("exit_code"), 77);
}

TEST(Trainer, WithoutFilesNothingIsWritten) {
  const TemporaryFolder folder;
  const auto before = fs::current_path();
  fs::current_path(folder.path());
  SmallRun run(recipe(), {.write_files = false});
  EXPECT_EQ(run.trainer.fit().folder, "");
  EXPECT_TRUE(fs::is_empty(folder.path()));
  fs::current_path(before);
}

TEST(Trainer, FoldersAreNumberedWhenNoneIsGiven) {
  const TemporaryFolder folder;
  const auto before = fs::current_path();
  fs::current_path(folder.path());
  EXPECT_EQ(SmallRun(recipe()).trainer.fit().folder, "runs/small-1");
  EXPECT_EQ(SmallRun(recipe()).trainer.fit().folder, "runs/small-2");
  fs::current_path(before);
}

TEST(Trainer, KeepsTheNewestCheckpointsAndTheBest) {
  const TemporaryFolder folder;
  Recipe r = recipe();
  r.checkpoint.keep = 2;
  r.checkpoint.every = *Interval::parse("5 updates");
  r.evaluation.every = *Interval::parse("4 updates");
  r.optimizer.lr = 3;  // gets worse after the first evaluations
  fit(r, folder / "run");
  const auto best =
      static_cast<int64_t>(read_json(folder / "run" / "summary.json").at("best").at("update").get<double>());
  const auto kept = CheckpointFolder(folder / "run" / "checkpoints").updates();
  EXPECT_TRUE(std::find(kept.begin(), kept.end(), best) != kept.end());
  EXPECT_LE(kept.size(), 3u);
  EXPECT_EQ(kept.back(), 30);
}

}  // namespace
}  // namespace autotrain
