// Whole runs on a device: what a GPU must do as a CPU does. The device is AUTOTRAIN_TEST_DEVICE, else cuda;
// on a CPU the same tests are a rehearsal.
#include <cstdlib>

#include "autotrain/trainer.h"
#include "base/run_thread.h"
#include "base/units.h"
#include "support/small_run.h"

namespace autotrain {
namespace {

using test::SmallNet;
using test::SmallRun;
using test::TemporaryFolder;

std::string test_device() {
  const char* const asked = std::getenv("AUTOTRAIN_TEST_DEVICE");
  return asked != nullptr ? asked : "cuda";
}

Recipe device_recipe() {
  Recipe r = test::typed_recipe();
  r.execution.device = test_device();
  r.execution.deterministic = true;
  r.execution.memory.budget = *Budget::parse("256MiB");
  r.stop = {};
  r.stop.updates = 12;
  return r;
}

TEST(CudaTraining, Fp16LowersItsScaleUntilUpdatesApplyAndThenLearns) {
  Recipe r = device_recipe();
  r.execution.precision = Precision::kFp16;
  r.execution.scaler.initial_scale = 1e9;  // far more than fp16's gradients can bear
  r.stop.updates = 40;
  const auto train = test::small_data(1000);
  Trainer trainer(r, test::small_task(SmallNet::Middle::kNothing), train, {.write_files = false});
  std::vector<UpdateRecord> updates;
  trainer.on_update([&](const UpdateRecord& u) { return updates.push_back(u), Flow::kContinue; });
  const Summary summary = trainer.fit();
  EXPECT_GT(summary.skipped_updates, 2);
  EXPECT_LT(updates.back().scale, 1e9);
  EXPECT_LT(updates.back().loss, updates.front().loss);
}

TEST(CudaTraining, CheckpointsWrittenWhileItTrainsHoldWhatThoseItWaitsForHold) {
  const TemporaryFolder folder;
  for (const bool background : {true, false}) {
    Recipe r = device_recipe();
    r.checkpoint.every = *Interval::parse("1 updates");
    r.checkpoint.background = background;
    test::fit(r, folder / (background ? "background" : "foreground"));
  }
  for (int64_t update = 1; update <= 12; ++update) {
    EXPECT_EQ(test::model_digest(folder / "background", update),
              test::model_digest(folder / "foreground", update))
        << "update " << update;
  }
}

TEST(CudaTraining, StoppedAndResumedItEndsWithTheSameBytes) {
  const TemporaryFolder folder;
  const Recipe r = device_recipe();
  test::fit(r, folder / "straight");
  {
    SmallRun run(r, {.output = folder / "run"});
    run.trainer.on_update(
        [](const UpdateRecord& u) { return u.update == 5 ? Flow::kStop : Flow::kContinue; });
    run.trainer.fit();
  }
  test::fit(r, folder / "run", /*resume=*/true);
  EXPECT_EQ(test::model_digest(folder / "run", 12), test::model_digest(folder / "straight", 12));
  EXPECT_EQ(test::column(folder / "run", "loss"), test::column(folder / "straight", "loss"));
}

TEST(CudaTraining, SearchedItEqualsTheRunWithItsPlanTypedIn) {
  const TemporaryFolder folder;
  Recipe r = device_recipe();
  r.execution.micro_batch.reset();
  r.execution.memory.budget = *Budget::parse("48MiB");
  SmallRun searched(r, {.output = folder / "searched"});
  const int64_t found = searched.trainer.plan().micro_batch;
  searched.trainer.fit();
  r.execution.micro_batch = found;
  test::fit(r, folder / "typed");
  EXPECT_EQ(test::model_digest(folder / "searched", 12), test::model_digest(folder / "typed", 12));
}

TEST(CudaTraining, ABudgetThatNothingHasIsRefused) {
  Recipe r = device_recipe();
  r.execution.memory.budget = *Budget::parse("64KiB");
  test::expect_error(ExitCode::kDoesNotFit, [&] { SmallRun(r, {.write_files = false}).trainer.fit(); });
}

// Takes memory of the device between two updates, so that a later allocation finds none, and gives it back as
// soon as the run says that memory ran out.
class Hog final : public RunObserver {
 public:
  explicit Hog(int64_t leave_bytes) : leave_bytes_(leave_bytes) {}

  // All that can be had, up to `free_bytes`, less what is to be left.
  void take(const torch::Device& device, int64_t free_bytes) {
    const ThreadWork for_run(true);  // what a callback takes is else the program's, in no budget
    const auto hold = [&](int64_t bytes) {
      held_ = torch::empty({bytes}, torch::dtype(torch::kUInt8).device(device));
    };
    for (int64_t bytes = free_bytes; bytes > leave_bytes_ && !held_.defined(); bytes -= kMiB) {
      try {
        hold(bytes);
      } catch (const c10::OutOfMemoryError&) {
        // There is less.
      }
    }
    if (!held_.defined()) return;
    const int64_t most = held_.numel();
    held_.reset();
    hold(std::max<int64_t>(1, most - leave_bytes_));
  }
  void on_event(const EventRecord& event) override {
    if (event.event != EventKind::kOutOfMemory) return;
    ++refusals;
    held_.reset();
  }
  void give_back() { held_.reset(); }

  int64_t refusals = 0;

 private:
  int64_t leave_bytes_;
  torch::Tensor held_;
};

// Whatever of an update meets the refusal: the forward pass, the backward pass, the optimizer, an evaluation.
TEST(CudaTraining, MemoryThatIsTakenAwayInMidRunChangesNoBit) {
  const TemporaryFolder folder;
  Recipe r = device_recipe();
  r.execution.memory.budget = *Budget::parse("64MiB");
  r.evaluation.every = *Interval::parse("3 updates");
  test::fit(r, folder / "straight");
  int64_t refusals = 0;
  for (const int64_t leave : {1 * kMiB, 3 * kMiB, 6 * kMiB, 10 * kMiB, 14 * kMiB}) {
    const auto path = folder / std::to_string(leave);
    Hog hog(leave);
    SmallRun run(r, {.output = path, .observer = &hog});
    const torch::Device device(run.trainer.plan().device);
    run.trainer.on_update([&](const UpdateRecord& u) {
      if (u.update == 4) hog.take(device, 64 * kMiB - 2 * kMiB);
      if (u.update == 7) hog.give_back();
      return Flow::kContinue;
    });
    run.trainer.fit();
    refusals += hog.refusals;
    EXPECT_EQ(test::model_digest(path, 12), test::model_digest(folder / "straight", 12))
        << leave << " bytes left";
  }
  EXPECT_GT(refusals, 0);
}

}  // namespace
}  // namespace autotrain
