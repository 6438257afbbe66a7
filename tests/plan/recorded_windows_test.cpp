#include "plan/recorded_windows.h"

#include <functional>
#include <utility>

#include "support/replaying_recorder.h"
#include "support/run_workbench.h"
#include "support/snapshot.h"
#include "support/support.h"

namespace autotrain {
namespace {

using test::holds;
using test::SmallNet;

using MakeRecorder = std::function<std::unique_ptr<WorkRecorder>()>;

// A CPU with a recorder of the test's.
class RecordingCpu final : public Device {
 public:
  RecordingCpu(std::unique_ptr<Device> cpu, MakeRecorder make)
      : Device({cpu->budget_bytes(), cpu->budget_source()}), cpu_(std::move(cpu)), make_(std::move(make)) {}

  c10::Device torch_device() const override { return cpu_->torch_device(); }
  std::string name() const override { return cpu_->name(); }
  std::string software() const override { return cpu_->software(); }
  bool has_native_bf16() const override { return cpu_->has_native_bf16(); }
  void synchronize() const override {}
  Batch upload(const Batch& batch) override { return cpu_->upload(batch); }
  MemoryMeter& memory() override { return cpu_->memory(); }
  int64_t used_by_others_bytes() const override { return cpu_->used_by_others_bytes(); }
  std::unique_ptr<WorkRecorder> make_recorder() override { return make_(); }

 private:
  const std::unique_ptr<Device> cpu_;
  const MakeRecorder make_;
};

// Keeps a number of the host's as it was when work was recorded, as a GPU keeps all of them.
class KeepingRecorder final : public WorkRecorder {
 public:
  explicit KeepingRecorder(double& number) : number_(number) {}

  std::unique_ptr<RecordedWork> record(const std::function<void()>& work) override {
    const double kept = number_;
    work();
    return std::make_unique<Work>(work, number_, kept);
  }

 private:
  class Work final : public RecordedWork {
   public:
    Work(std::function<void()> work, double& number, double kept)
        : work_(std::move(work)), number_(number), kept_(kept) {}

    void replay() override {
      if (std::exchange(first_, false)) return;
      const double now = std::exchange(number_, kept_);
      work_();
      number_ = now;
    }

   private:
    const std::function<void()> work_;
    double& number_;
    const double kept_;
    bool first_ = true;
  };

  double& number_;
};

// Its loss grows a little at every call.
class Growing : public Task {
 public:
  torch::nn::Module& module() override { return *net_; }
  LossTerms loss(const Batch& batch) override {
    ++calls;
    const torch::Tensor losses = net_->forward(batch.inputs).square().sum(1) * (1 + 1e-4 * calls);
    return {losses.sum(), torch::full({}, static_cast<double>(batch.samples))};
  }
  double calls = 0;

 private:
  std::shared_ptr<SmallNet> net_ = std::make_shared<SmallNet>();
};

class Beginning final : public Growing {
 public:
  void begin_update(const UpdateInfo& info) override { calls = static_cast<double>(info.update); }
};

RecordedWindows measured(std::unique_ptr<Task> task, MakeRecorder make, bool trusted) {
  const auto data = test::small_data(64);
  const Recipe recipe = test::small_recipe();
  RunData of_run;
  of_run.train = &data;
  auto device = std::make_unique<RecordingCpu>(open_run_device(recipe), std::move(make));
  const auto bench = assemble(recipe, {std::move(device), std::move(of_run), std::move(task)});
  const std::vector<int64_t> indices = {0, 1, 2, 3, 4, 5, 6, 7}, epochs(8, 0);
  const auto before = test::everything(*bench);
  const RecordedWindows found = measure_recorded(
      *bench, {data.get(indices, SampleRandom(0, indices, epochs))}, /*always=*/false, trusted);
  test::expect_equal(test::everything(*bench), before);
  return found;
}

TEST(RecordedWindows, WhatRepeatsIsTakenAndTimed) {
  const MakeRecorder replaying = [] {
    return std::make_unique<test::ReplayingRecorder>(std::make_shared<test::ReplayingRecorder::Counts>());
  };
  const RecordedWindows found = measured(test::small_task(), replaying, /*trusted=*/false);
  EXPECT_EQ(found.refused, "");
  EXPECT_GT(found.launched_seconds, 0);
  EXPECT_GT(found.replayed_seconds, 0);
}

// A temperature that falls from call to call looks like kernels that add in any order.
TEST(RecordedWindows, WhatCodeOfTheProgramsOwnChangesALittleIsNoNoise) {
  const auto refused = [](bool trusted) {
    auto task = std::make_unique<Growing>();
    double& calls = task->calls;
    const MakeRecorder keeping = [&calls] { return std::make_unique<KeepingRecorder>(calls); };
    return measured(std::move(task), keeping, trusted).refused;
  };
  EXPECT_TRUE(holds(refused(false), "launched twice, the model gives other bits")) << refused(false);
  EXPECT_EQ(refused(true), "");
}

TEST(RecordedWindows, ATaskThatBeginsUpdatesItselfIsRefusedByName) {
  auto task = std::make_unique<Beginning>();
  double& calls = task->calls;
  const MakeRecorder keeping = [&calls] { return std::make_unique<KeepingRecorder>(calls); };
  EXPECT_TRUE(holds(measured(std::move(task), keeping, /*trusted=*/true).refused, "begin_update"));
}

}  // namespace
}  // namespace autotrain
