// Injects what may befall a run, which must compute what the undisturbed one computes.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cmath>
#include <numeric>
#include <set>

#include "autotrain/log.h"
#include "base/file_layer.h"
#include "base/interrupt.h"
#include "base/random.h"
#include "checkpoint/checkpoint.h"
#include "device/caching_allocator.h"
#include "report/metrics_file.h"
#include "support/locale_scope.h"
#include "support/small_run.h"
#include "verify/run_difference.h"

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;
using test::column;
using test::fit;
using test::kTrialCalls;
using test::model_digest;
using test::read_json;
using test::SmallNet;
using test::SmallRun;
using test::TemporaryFolder;
using test::timeless_rows;
namespace fs = std::filesystem;

// Two pieces and a remainder an update, an evaluation and a checkpoint in the middle.
Recipe short_recipe() {
  Recipe r = test::typed_recipe();
  r.stop = {};
  r.stop.updates = 5;
  r.checkpoint.every = *Interval::parse("2 updates");
  r.evaluation.every = *Interval::parse("2 updates");
  return r;
}

// Removes the fault, whatever happens.
struct FaultScope {
  explicit FaultScope(CachingAllocator::Fault fault) {
    CachingAllocator::process_wide().set_fault(std::move(fault));
  }
  ~FaultScope() { CachingAllocator::process_wide().set_fault({}); }
};

// The run, whose allocations after the first update meet `fault`.
Summary fit_with_fault(Trainer& trainer, CachingAllocator::Fault fault) {
  const FaultScope none({});
  trainer.on_update([&, armed = false](const UpdateRecord&) mutable {
    if (!armed) CachingAllocator::process_wide().set_fault(fault);
    armed = true;
    return Flow::kContinue;
  });
  return trainer.fit();
}

Summary fit_with_fault(const Recipe& r, const fs::path& folder, SmallNet::Middle middle,
                       CachingAllocator::Fault fault) {
  SmallRun run(r, {.output = folder}, middle);
  return fit_with_fault(run.trainer, std::move(fault));
}

std::vector<Json> events(const fs::path& run, const std::string& event) {
  std::vector<Json> found;
  for (Json& row : read_metrics(run / "metrics.jsonl")) {
    if (row.at("kind") == "event" && row.at("event") == event) found.push_back(std::move(row));
  }
  return found;
}

class OutOfMemory : public testing::TestWithParam<SmallNet::Middle> {};

TEST_P(OutOfMemory, AtAnyAllocationOfTheRunChangesNoBit) {
  const TemporaryFolder folder;
  fit(short_recipe(), folder / "straight", false, GetParam());
  std::vector<MemoryPhase> phases;
  phases.reserve(1 << 20);
  fit_with_fault(short_recipe(), folder / "counted", GetParam(), [&](int64_t, MemoryPhase phase) {
    phases.push_back(phase);
    return false;
  });
  const auto count = static_cast<int64_t>(phases.size());
  ASSERT_GT(count, 300);
  int64_t recovered = 0;
  // In the short form one in so many; of the first update's, where a half-done one would show, every one.
  const int64_t stride = test::soaking() ? 1 : count / 12 + 1;
  int64_t tried = 0, updating = 0;
  for (int64_t k = 1; k <= count; ++k) {
    const bool applying = phases[static_cast<size_t>(k - 1)] == MemoryPhase::kUpdate && updating++ < 20;
    if (k % stride != 0 && !applying) continue;
    ++tried;
    const fs::path path = folder / std::to_string(k);
    int64_t seen = 0;
    const Summary summary =
        fit_with_fault(short_recipe(), path, GetParam(), [&](int64_t, MemoryPhase) { return ++seen == k; });
    recovered += summary.oom_recoveries;
    ASSERT_EQ(summary.updates, 5) << "allocation " << k;
    ASSERT_EQ(model_digest(path, 5), model_digest(folder / "straight", 5)) << "allocation " << k;
    ASSERT_EQ(column(path, "loss"), column(folder / "straight", "loss")) << "allocation " << k;
    ASSERT_EQ(column(path, "samples"), column(folder / "straight", "samples")) << "allocation " << k;
    ASSERT_EQ(summary.final, fit(short_recipe(), path, true, GetParam()).final);
    fs::remove_all(path);
  }
  EXPECT_GT(recovered, tried * 2 / 3) << "nearly every refusal must have been met and got over";
}

INSTANTIATE_TEST_SUITE_P(Nets, OutOfMemory,
                         testing::Values(SmallNet::Middle::kNothing, SmallNet::Middle::kBatchNorm,
                                         SmallNet::Middle::kDropout));

TEST(OutOfMemory, AtRandomAllocationsOfALargerRunChangesNoBit) {
  const TemporaryFolder folder;
  const Recipe r = load_recipe(folder.write("resnet18.yaml", R"(
data:
  train: {dataset: synthetic, kind: images, shape: [1, 12, 12], samples: 200}
  validation: {dataset: synthetic, kind: images, shape: [1, 12, 12], samples: 50, first: 1000}
model: {name: resnet18, stem: small}
batch: {effective: 20}
stop: {updates: 3}
evaluation: {every: 2 updates}
checkpoint: {every: 1 updates}
execution: {precision: fp32, micro_batch: 8}
)"));
  const auto run = [&](const fs::path& path, CachingAllocator::Fault fault) {
    Trainer trainer = Trainer::from_recipe(r, {.output = path});
    return fit_with_fault(trainer, std::move(fault));
  };
  int64_t count = 0;
  run(folder / "straight", [&](int64_t, MemoryPhase) { return ++count < 0; });
  Random random(5);
  for (int i = test::soaking() ? 200 : 2; i > 0; --i) {
    const int64_t k = 1 + random.below(count);
    int64_t seen = 0;
    const fs::path path = folder / "refused";
    run(path, [&](int64_t, MemoryPhase) { return ++seen == k; });
    ASSERT_EQ(model_digest(path, 3), model_digest(folder / "straight", 3)) << "allocation " << k;
    ASSERT_EQ(column(path, "loss"), column(folder / "straight", "loss")) << "allocation " << k;
    fs::remove_all(path);
  }
}

// Refuses what only a micro-batch larger than `samples` of SmallNet's wide layer asks for.
CachingAllocator::Fault larger_than(int64_t samples, MemoryPhase phase) {
  return [=](int64_t bytes, MemoryPhase now) {
    return now == phase && bytes > samples * test::kWide * static_cast<int64_t>(sizeof(float));
  };
}

TEST(OutOfMemory, RunsTheSameSamplesInSmallerMicroBatchesAndThenMakesThemThePlan) {
  const TemporaryFolder folder;
  fit(short_recipe(), folder / "straight", false, SmallNet::Middle::kNothing);
  const fs::path path = folder / "run";
  const Summary summary = fit_with_fault(short_recipe(), path, SmallNet::Middle::kNothing,
                                         larger_than(20, MemoryPhase::kForward));
  EXPECT_EQ(summary.status, RunStatus::kCompleted);
  EXPECT_EQ(column(path, "samples"), column(folder / "straight", "samples"));
  const auto losses = column(path, "loss"), straight = column(folder / "straight", "loss");
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i] / straight[i], 1, 1e-4);
  // Three windows fail twice each; then 17 samples at a time are the plan, and nothing fails any more.
  EXPECT_EQ(summary.oom_recoveries, 6);
  EXPECT_EQ(events(path, "out_of_memory").size(), 6u);
  ASSERT_EQ(events(path, "plan").size(), 1u);
  const Json plan = read_json(path / "plan.json");
  EXPECT_EQ(plan.at("micro_batch"), 17);
  EXPECT_EQ(plan.at("window"), 6);
  EXPECT_EQ(plan.at("effective_batch"), 100);
  const Json state = read_json(path / "checkpoints" / "update-5" / "state.json");
  EXPECT_EQ(state.at("plan").at("micro_batch"), 17);
  EXPECT_EQ(state.at("run").at("recoveries"), 6);
}

TEST(OutOfMemory, StopsAtTheFirstWhenTheRecipeSaysSoAndGoesOnFromThere) {
  const TemporaryFolder folder;
  fit(short_recipe(), folder / "straight");
  Recipe r = short_recipe();
  r.execution.recovery = Recovery::kStop;
  r.checkpoint.every = {};
  const Error error = test::expect_error(ExitCode::kDoesNotFit, [&] {
    fit_with_fault(r, folder / "run", SmallNet::Middle::kDropout, larger_than(20, MemoryPhase::kBackward));
  });
  EXPECT_TRUE(test::holds(error.what(), "phase backward"));
  EXPECT_TRUE(test::holds(error.what(), "is saved in"));
  EXPECT_TRUE(test::holds(error.what(), "optimizer state"));
  EXPECT_EQ(read_json(folder / "run" / "summary.json").at("exit_code"), 71);
  EXPECT_EQ(CheckpointFolder(folder / "run" / "checkpoints").updates(), (std::vector<int64_t>{1}));
  EXPECT_EQ(fit(short_recipe(), folder / "run", true).updates, 5);
  EXPECT_EQ(model_digest(folder / "run", 5), model_digest(folder / "straight", 5));
}

TEST(OutOfMemory, AtOneSampleEndsWithAReportThatNamesTheLayer) {
  const TemporaryFolder folder;
  const Error error = test::expect_error(ExitCode::kDoesNotFit, [&] {
    fit_with_fault(short_recipe(), folder / "run", SmallNet::Middle::kNothing,
                   larger_than(0, MemoryPhase::kForward));
  });
  EXPECT_TRUE(test::holds(error.what(), "with 1 sample in a micro-batch"));
  EXPECT_TRUE(test::holds(error.what(), "training, phase forward, layer first"));
  EXPECT_TRUE(test::holds(error.what(), "raise execution.memory.budget"));
  EXPECT_TRUE(test::holds(error.what(), "is saved in"));
}

// What looks for the layer must leave no trace in what is saved.
TEST(OutOfMemory, AtTheSmallestMicroBatchSavesTheBuffersAsTheyWere) {
  const TemporaryFolder folder;
  const auto middle = SmallNet::Middle::kBatchNorm;
  Recipe r = short_recipe();
  r.checkpoint.every = {};
  r.evaluation.every = {};  // a best evaluation is a checkpoint
  fit(short_recipe(), folder / "straight", false, middle);
  test::expect_error(ExitCode::kDoesNotFit, [&] {
    fit_with_fault(r, folder / "run", middle, larger_than(0, MemoryPhase::kBackward));
  });
  EXPECT_EQ(CheckpointFolder(folder / "run" / "checkpoints").updates(), (std::vector<int64_t>{1}));
  EXPECT_EQ(fit(short_recipe(), folder / "run", true, middle).updates, 5);
  EXPECT_EQ(model_digest(folder / "run", 5), model_digest(folder / "straight", 5));
}

TEST(OutOfMemory, InAnEvaluationShrinksOnlyEvaluations) {
  const TemporaryFolder folder;
  const Summary straight = fit(short_recipe(), folder / "straight");
  const Summary summary = fit_with_fault(short_recipe(), folder / "run", SmallNet::Middle::kDropout,
                                         larger_than(20, MemoryPhase::kEvaluation));
  EXPECT_EQ(summary.oom_recoveries, 2) << "once at the same size, once to half of it, which stays";
  EXPECT_EQ(model_digest(folder / "run", 5), model_digest(folder / "straight", 5));
  EXPECT_NEAR(summary.final.at("loss"), straight.final.at("loss"), 1e-6);
  EXPECT_EQ(read_json(folder / "run" / "checkpoints" / "update-5" / "state.json")
                .at("plan")
                .at("evaluation_micro_batch"),
            17);
}

// ------------------------------------------------------------------ divergence

// SmallNet whose loss is not finite in some windows.
class Diverging final : public Task {
 public:
  explicit Diverging(std::function<bool(int64_t call)> diverges) : diverges_(std::move(diverges)) {}
  torch::nn::Module& module() override { return inner_->module(); }
  LossTerms loss(const Batch& batch) override {
    LossTerms terms = inner_->loss(batch);
    if (module().is_training() && diverges_(calls_++)) terms.sum = terms.sum * NAN;
    return terms;
  }

 private:
  std::unique_ptr<Task> inner_ = test::small_task();
  std::function<bool(int64_t)> diverges_;
  int64_t calls_ = 0;
};

Recipe diverging_recipe() {
  Recipe r = short_recipe();
  r.execution.micro_batch = 100;
  r.stop.updates = 12;
  r.stop.max_skipped = 2;
  r.evaluation.every = {};
  return r;
}

Summary fit_diverging(const Recipe& r, const fs::path& folder, std::function<bool(int64_t)> diverges) {
  const auto train = test::small_data(1000);
  return Trainer(r, std::make_unique<Diverging>(std::move(diverges)), train, {.output = folder}).fit();
}

TEST(Divergence, RollbackGoesOnFromTheLastCheckpointWithASmallerLearningRate) {
  const TemporaryFolder folder;
  Recipe r = diverging_recipe();
  r.divergence.policy = DivergencePolicy::kRollback;
  const Summary summary = fit_diverging(
      r, folder / "run", [](int64_t call) { return call >= kTrialCalls + 7 && call < kTrialCalls + 9; });
  EXPECT_EQ(summary.status, RunStatus::kCompleted);
  EXPECT_EQ(summary.updates, 12);
  EXPECT_EQ(summary.rollbacks, 1);
  EXPECT_EQ(summary.skipped_updates, 2);
  EXPECT_EQ(summary.samples, 1200) << "the samples after the checkpoint are taken again";
  EXPECT_EQ(events(folder / "run", "rollback").size(), 1u);
  const auto updates = column(folder / "run", "update"), rates = column(folder / "run", "lr");
  ASSERT_EQ(updates.size(), 13u) << "the truth: update 7 was made twice";
  EXPECT_EQ(updates[6], 7);
  EXPECT_EQ(updates[7], 7);
  EXPECT_DOUBLE_EQ(rates[7], rates[6] / 2);
  EXPECT_EQ(read_json(folder / "run" / "checkpoints" / "update-12" / "state.json").at("run").at("lr_factor"),
            0.5);
}

// The run is taken back to before the evaluations that lowered the rate, and meets them again.
TEST(Divergence, RollbackTakesBackWhatARateThatFollowsEvaluationsHasSeen) {
  const TemporaryFolder folder;
  Recipe r = diverging_recipe();
  r.checkpoint.every = *Interval::parse("5 updates");
  r.evaluation.every = *Interval::parse("2 updates");
  r.optimizer.lr = 1e-30;  // no evaluation is the best of them, so that none brings a checkpoint
  r.schedule.shape = {"plateau", {{"factor", 0.25}, {"patience", int64_t{2}}, {"threshold", 100.0}}};
  r.divergence.policy = DivergencePolicy::kRollback;
  const auto diverges = [](int64_t call) { return call >= kTrialCalls + 8 && call < kTrialCalls + 10; };
  const auto train = test::small_data(1000), validation = test::small_data(200, 8);
  Trainer(r, std::make_unique<Diverging>(diverges), train, validation, {.output = folder / "run"}).fit();
  const auto updates = column(folder / "run", "update"), rates = column(folder / "run", "lr");
  ASSERT_EQ(updates.size(), 15u) << "8 updates, then from 6 to 12";
  EXPECT_DOUBLE_EQ(rates[6], rates[0] * 0.25) << "after the evaluations at 4 and 6";
  EXPECT_EQ(updates[8], 6);
  EXPECT_DOUBLE_EQ(rates[8], rates[0] * 0.5) << "that of the rollback alone";
  EXPECT_DOUBLE_EQ(rates[9], rates[0] * 0.5 * 0.25) << "after the evaluation at 6, met again";
}

// A checkpoint of the update whose weights fail was written before anyone could know.
TEST(Divergence, RollbackGoesBackBeforeTheWeightsThatFailed) {
  const TemporaryFolder folder;
  Recipe r = diverging_recipe();
  r.checkpoint.every = *Interval::parse("1 updates");
  r.divergence.policy = DivergencePolicy::kRollback;
  const Summary summary = fit_diverging(
      r, folder / "run", [](int64_t call) { return call >= kTrialCalls + 7 && call < kTrialCalls + 9; });
  EXPECT_EQ(summary.status, RunStatus::kCompleted);
  const auto rollbacks = events(folder / "run", "rollback");
  ASSERT_EQ(rollbacks.size(), 1U);
  EXPECT_TRUE(test::holds(rollbacks[0].at("detail"), "from update 7 to 6"));
}

// Diverges in some windows; its evaluations come to a loss that the test says.
class Judged final : public Task {
 public:
  Judged(const double& loss, std::function<bool(int64_t call)> diverges)
      : inner_(std::move(diverges)), loss_(loss) {}
  torch::nn::Module& module() override { return inner_.module(); }
  LossTerms loss(const Batch& batch) override { return inner_.loss(batch); }
  EvaluationTerms evaluate(const Batch& batch) override {
    LossTerms terms = inner_.loss(batch);
    terms.sum = terms.sum * 0 + terms.weight * loss_;
    return {terms, {}};
  }

 private:
  Diverging inner_;
  const double& loss_;
};

// What was the best before the weights that failed is the best again, and must still be there.
TEST(Divergence, RollbackFindsTheBestOfTheCheckpointThatItGoesBackTo) {
  const TemporaryFolder folder;
  Recipe r = diverging_recipe();
  r.evaluation.every = *Interval::parse("2 updates");
  r.checkpoint.keep = 2;
  r.divergence.policy = DivergencePolicy::kRollback;
  double loss = 1;
  auto task = std::make_unique<Judged>(
      loss, [](int64_t call) { return call >= kTrialCalls + 6 && call < kTrialCalls + 8; });
  const auto train = test::small_data(1000), validation = test::small_data(200, 8);
  Trainer trainer(r, std::move(task), train, validation, {.output = folder / "run"});
  trainer.on_update([&, made = 0](const UpdateRecord& update) mutable {
    const bool again = ++made > update.update;
    loss = update.update == 2 ? 0.5 : update.update == 6 && !again ? 0.25 : 0.75;
    return Flow::kContinue;
  });
  const Summary summary = trainer.fit();
  EXPECT_EQ(summary.rollbacks, 1);
  EXPECT_TRUE(
      test::holds(events(folder / "run", "rollback").at(0).at("detail"),
                  "from update 6 to 4, whose rows that follow here replace the earlier ones; the best is "
                  "update 2 again"));
  EXPECT_EQ(summary.best.at("update"), 2);
  EXPECT_EQ(summary.best.at("loss"), 0.5);
  const CheckpointFolder checkpoints(folder / "run" / "checkpoints");
  EXPECT_NO_THROW(checkpoints.read_state(2)) << "the best one";
}

TEST(Divergence, WithoutACheckpointFromBeforeItSaysSo) {
  const TemporaryFolder folder;
  Recipe r = diverging_recipe();
  r.divergence.policy = DivergencePolicy::kRollback;
  const Error error = test::expect_error(ExitCode::kDiverged, [&] {
    fit_diverging(r, folder / "run", [](int64_t call) { return call >= kTrialCalls + 1; });
  });
  EXPECT_TRUE(test::holds(error.what(), "no checkpoint from before update 1"));
}

TEST(Divergence, WhereTheOnlyCheckpointIsOfTheWeightsThatFailedItSaysWhatToKeep) {
  const TemporaryFolder folder;
  Recipe r = diverging_recipe();
  r.divergence.policy = DivergencePolicy::kRollback;
  r.checkpoint.every = *Interval::parse("1 updates");
  r.checkpoint.keep = 1;
  const Error error = test::expect_error(ExitCode::kDiverged, [&] {
    fit_diverging(r, folder / "run",
                  [](int64_t call) { return call >= kTrialCalls + 7 && call < kTrialCalls + 9; });
  });
  EXPECT_TRUE(test::holds(error.what(), "no checkpoint from before update 7"));
  EXPECT_TRUE(test::holds(error.hint(), "checkpoint.keep to 2"));
}

TEST(Divergence, RollbacksAreBounded) {
  const TemporaryFolder folder;
  Recipe r = diverging_recipe();
  r.divergence.policy = DivergencePolicy::kRollback;
  r.divergence.max_rollbacks = 2;
  const Error error = test::expect_error(ExitCode::kDiverged, [&] {
    fit_diverging(r, folder / "run", [](int64_t call) { return call >= kTrialCalls + 7; });
  });
  EXPECT_TRUE(test::holds(error.what(), "after 2 rollbacks"));
}

TEST(Divergence, StopEndsTheRunAtTheFirst) {
  const TemporaryFolder folder;
  Recipe r = diverging_recipe();
  r.divergence.policy = DivergencePolicy::kStop;
  const Error error = test::expect_error(ExitCode::kDiverged, [&] {
    fit_diverging(r, folder / "run", [](int64_t call) { return call == kTrialCalls + 7; });
  });
  EXPECT_TRUE(test::holds(error.what(), "1 update was not finite"));
  EXPECT_EQ(read_json(folder / "run" / "summary.json").at("updates"), 7);
}

// A net whose second layer gives infinity once its first weight was made huge.
TEST(Divergence, TheFirstLayerWhoseOutputIsNotFiniteIsNamed) {
  const TemporaryFolder folder;
  Recipe r = diverging_recipe();
  const auto train = test::small_data(1000);
  auto net = std::make_shared<SmallNet>(SmallNet::Middle::kNothing, 6, 16);
  Trainer trainer(r, supervised(net, cross_entropy()), train, {.output = folder / "run"});
  trainer.on_update([&](const UpdateRecord& u) {
    const torch::NoGradGuard no_gradients;
    if (u.update == 6) net->second->weight.fill_(3e38);
    return Flow::kContinue;
  });
  const Error error = test::expect_error(ExitCode::kDiverged, [&] { trainer.fit(); });
  EXPECT_TRUE(test::holds(error.what(), "first layer whose output is not finite: second (aten::addmm)"));
}

// ------------------------------------------------------------------ signals and the folder

TEST(Signals, ACheckpointCanBeAskedForAndTheRunGoesOn) {
  const TemporaryFolder folder;
  Recipe r = short_recipe();
  r.checkpoint.every = {};
  r.evaluation.every = {};  // a best evaluation is a checkpoint
  SmallRun run(r, {.output = folder / "run"});
  run.trainer.on_update([](const UpdateRecord& u) {
    if (u.update == 2) request_checkpoint();
    return Flow::kContinue;
  });
  EXPECT_EQ(run.trainer.fit().status, RunStatus::kCompleted);
  const auto updates = CheckpointFolder(folder / "run" / "checkpoints").updates();
  ASSERT_EQ(updates.size(), 2u);
  EXPECT_LE(updates[0], 3);
  EXPECT_EQ(updates[1], 5);
}

TEST(RunFolder, HasOneWriter) {
  const TemporaryFolder folder;
  SmallRun run(short_recipe(), {.output = folder / "run"});
  run.trainer.on_update([&](const UpdateRecord& u) {
    if (u.update != 2) return Flow::kContinue;
    const Error error =
        test::expect_error(ExitCode::kUsage, [&] { fit(short_recipe(), folder / "run", true); });
    EXPECT_TRUE(
        test::holds(error.what(), "process " + std::to_string(::getpid()) + " is writing a run there"));
    return Flow::kContinue;
  });
  EXPECT_EQ(run.trainer.fit().status, RunStatus::kCompleted);
  EXPECT_EQ(fit(short_recipe(), folder / "run", true).status, RunStatus::kCompleted) << "free again";
}

TEST(RunFolder, OneThatIsMovedWhileItIsWrittenToEndsTheRunWhichGoesOnWhereItLies) {
  const TemporaryFolder folder;
  fit(short_recipe(), folder / "straight");
  Recipe r = short_recipe();
  r.checkpoint.background = false;
  const Error error = test::expect_error(ExitCode::kInputOutput, [&] {
    SmallRun run(r, {.output = folder / "run"});
    run.trainer.on_update([&](const UpdateRecord& u) {
      if (u.update == 3) fs::rename(folder / "run", folder / "moved");
      return Flow::kContinue;
    });
    run.trainer.fit();
  });
  EXPECT_TRUE(test::holds(error.what(), "is not the folder of this run any more"));
  EXPECT_FALSE(fs::exists(folder / "run")) << "no second folder with the rest of the run";
  EXPECT_EQ(fit(short_recipe(), folder / "moved", true).updates, 5);
  EXPECT_EQ(model_digest(folder / "moved", 5), model_digest(folder / "straight", 5));
  EXPECT_EQ(timeless_rows(folder / "moved"), timeless_rows(folder / "straight"));
}

// The disk is full for everything below a folder, from the moment it is switched on.
class FullDisk final : public FileLayer {
 public:
  explicit FullDisk(fs::path folder) : folder_(std::move(folder)) {}
  int open(const char* path, int flags) override {
    const bool hit = full && std::string(path).starts_with(folder_.string()) && (flags & O_CREAT) != 0;
    if (!hit) return FileLayer::open(path, flags);
    refused_thread_ = gettid();
    errno = ENOSPC;
    return -1;
  }

  /// Returns once the thread that was refused a file has ended, so that its failure is known.
  void wait_for_refused_thread() const {
    test::wait_until([&] { return refused_thread_ != 0; });
    test::wait_until([&] { return !fs::exists("/proc/self/task/" + std::to_string(refused_thread_)); });
  }

  std::atomic<bool> full = false;

 private:
  fs::path folder_;
  std::atomic<pid_t> refused_thread_ = 0;
};

TEST(RunFolder, WhenTheDiskIsFullTheStateIsSavedElsewhereAndTheRunGoesOnFromThere) {
  const TemporaryFolder folder;
  fit(short_recipe(), folder / "straight");
  Recipe r = short_recipe();
  r.checkpoint.fallback = (folder / "elsewhere").string();
  r.checkpoint.background = false;
  r.checkpoint.full_disk_wait = 0;
  FullDisk disk(folder / "run");
  const Error error = test::expect_error(ExitCode::kInputOutput, [&] {
    const FileLayerScope scope(disk);
    SmallRun run(r, {.output = folder / "run"});
    run.trainer.on_update([&](const UpdateRecord& u) {
      if (u.update == 3) disk.full = true;
      return Flow::kContinue;
    });
    run.trainer.fit();
  });
  EXPECT_TRUE(test::holds(error.what(), "No space left"));
  EXPECT_TRUE(test::holds(error.what(), "update 4 is saved in " + (folder / "elsewhere" / "run-1").string()));
  EXPECT_EQ(CheckpointFolder(folder / "run" / "checkpoints").read_newest_state()->first, 2) << "intact";
  EXPECT_EQ(fit(short_recipe(), folder / "elsewhere" / "run-1", true).updates, 5);
  EXPECT_EQ(model_digest(folder / "elsewhere" / "run-1", 5), model_digest(folder / "straight", 5));
}

TEST(RunFolder, CopiesForCheckpointsInTheBackgroundStayBelowTheBandsUpperEdge) {
  const TemporaryFolder folder;
  constexpr int64_t kHidden = int64_t{1} << 18;
  constexpr int64_t kCopies = 3 * 4 * 11 * kHidden;  // weights and two moments
  Recipe r = short_recipe();
  r.batch.effective = 8;
  r.execution.micro_batch = 4;
  r.stop = {};
  r.stop.updates = 4;
  r.checkpoint.every = *Interval::parse("1 updates");
  r.execution.memory.target_low = 0.1;
  r.execution.memory.target_high = 0.9;
  const auto peak_with = [&](int64_t budget, bool background, const char* name) {
    r.execution.memory.budget = Budget{.kind = Budget::Kind::kBytes, .bytes = budget};
    r.checkpoint.background = background;
    const TensorDataset train = test::small_data(64), validation = test::small_data(8, 8);
    Trainer trainer(r, test::small_task(SmallNet::Middle::kNothing, kHidden), train, validation,
                    {.output = folder / name});
    return trainer.fit().peak_bytes;
  };
  const int64_t alone = peak_with(int64_t{1} << 30, false, "alone");
  const auto budget = static_cast<int64_t>(static_cast<double>(alone + kCopies) / 0.94);
  EXPECT_LE(static_cast<double>(peak_with(budget, true, "beside")), 0.9 * static_cast<double>(budget));
}

// The failure of a checkpoint in the background is noticed at the next update, before its evaluation.
TEST(RunFolder, AnEvaluationThatAFailedCheckpointKeptBackIsMadeOnResume) {
  const TemporaryFolder folder;
  Recipe r = short_recipe();
  r.evaluation.every = *Interval::parse("1 updates");
  r.checkpoint.every = *Interval::parse("1 updates");
  r.checkpoint.full_disk_wait = 0;
  fit(r, folder / "straight");
  FullDisk disk(folder / "run");
  test::expect_error(ExitCode::kInputOutput, [&] {
    const FileLayerScope scope(disk);
    SmallRun run(r, {.output = folder / "run"});
    run.trainer.on_evaluation([&](const EvaluationRecord& e) {
      if (e.update == 2) disk.full = true;
      return Flow::kContinue;
    });
    run.trainer.on_update([&](const UpdateRecord& u) {
      if (u.update == 3) {
        disk.wait_for_refused_thread();
        disk.full = false;
      }
      return Flow::kContinue;
    });
    run.trainer.fit();
  });
  const auto rows = read_metrics(folder / "run" / "metrics.jsonl");
  EXPECT_EQ(std::ranges::count_if(rows, [](const auto& row) { return row.at("kind") == "evaluation"; }), 2)
      << "the third was kept back";
  EXPECT_EQ(fit(r, folder / "run", true).updates, 5);
  EXPECT_EQ(first_differing_row(folder / "run", folder / "straight"), "");
}

// Whoever frees some space meanwhile need not do more.
TEST(RunFolder, AFullDiskIsWaitedForAndTheRunGoesOn) {
  const TemporaryFolder folder;
  fit(short_recipe(), folder / "straight");
  std::vector<std::string> said;
  FullDisk disk(folder / "run");
  log::set_sink(
      [&](const log::Record& record) {
        if (record.room != "files") return;
        said.emplace_back(record.text);
        disk.full = false;
      },
      log::Level::kInfo);
  {
    const FileLayerScope scope(disk);
    Recipe r = short_recipe();
    r.checkpoint.background = false;
    SmallRun run(r, {.output = folder / "run"});
    run.trainer.on_update([&](const UpdateRecord& u) {
      if (u.update == 3) disk.full = true;
      return Flow::kContinue;
    });
    EXPECT_EQ(run.trainer.fit().status, RunStatus::kCompleted);
  }
  log::set_sink(log::terminal_sink(), log::Level::kWarning);
  ASSERT_EQ(said.size(), 2u);
  EXPECT_TRUE(test::holds(said[0], "waiting for room on the disk"));
  EXPECT_TRUE(test::holds(said[0], "No space left"));
  EXPECT_TRUE(test::holds(said[1], "has room again"));
  EXPECT_EQ(model_digest(folder / "run", 5), model_digest(folder / "straight", 5));
}

// The names of all files below a folder but those that hold the time.
std::set<std::string> files_below(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const bool timed = entry.path().filename().string().find("tfevents") != std::string::npos;
    if (entry.is_regular_file() && !timed) names.insert(fs::relative(entry.path(), folder).string());
  }
  return names;
}

// Numbers of two digits have a separator in it.
TEST(RunFolder, AGlobalLocaleOfTheCallersProgramChangesNoFile) {
  const TemporaryFolder folder;
  Recipe r = short_recipe();
  r.stop.updates = 12;
  r.checkpoint.keep = 100;
  r.report = {};
  fit(r, folder / "straight");
  {
    const test::LocaleScope locale;
    SmallRun run(r, {.output = folder / "run"});
    run.trainer.on_update([](const UpdateRecord& u) {
      if (u.update == 10) request_interrupt(Interrupt::kStop);
      return Flow::kContinue;
    });
    EXPECT_EQ(run.trainer.fit().status, RunStatus::kInterrupted);
    clear_interrupt();
    EXPECT_EQ(CheckpointFolder(folder / "run" / "checkpoints").updates().back(), 10);
    EXPECT_EQ(fit(r, folder / "run", true).updates, 12);
  }
  EXPECT_EQ(files_below(folder / "run"), files_below(folder / "straight"));
  EXPECT_EQ(model_digest(folder / "run", 12), model_digest(folder / "straight", 12));
  EXPECT_EQ(test::slurp(folder / "run" / "recipe.yaml"), test::slurp(folder / "straight" / "recipe.yaml"));
  EXPECT_EQ(first_differing_row(folder / "run", folder / "straight"), "");
}

// Refuses to write what a run leaves for people.
class NoReports final : public FileLayer {
 public:
  int open(const char* path, int flags) override {
    for (const char* const part : {"report.html", ".csv", "/tensorboard/"}) {
      const bool hit = std::string(path).find(part) != std::string::npos && (flags & O_CREAT) != 0;
      if (hit) return errno = ENOSPC, -1;
    }
    return FileLayer::open(path, flags);
  }
};

TEST(RunFolder, ReportsThatCannotBeWrittenAreWarnings) {
  const TemporaryFolder folder;
  NoReports disk;
  Recipe r = short_recipe();
  r.report = {};
  std::vector<std::string> warnings;
  log::set_sink([&](const log::Record& record) { warnings.emplace_back(record.text); }, log::Level::kWarning);
  {
    const FileLayerScope scope(disk);
    EXPECT_EQ(fit(r, folder / "run").status, RunStatus::kCompleted);
  }
  log::set_sink(log::terminal_sink(), log::Level::kWarning);
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_TRUE(test::holds(warnings[0], "TensorBoard"));
  EXPECT_TRUE(test::holds(warnings[1], "No space left"));
  EXPECT_FALSE(fs::exists(folder / "run" / "report.html"));
  EXPECT_TRUE(fs::exists(folder / "run" / "summary.json"));
}

}  // namespace
}  // namespace autotrain
