// What only a GPU can show. Labelled gpu: left out where there is none.
#include "device/cuda_device.h"

#include "autotrain/trainer.h"
#include "base/units.h"
#include "plan/probe.h"
#include "support/run_parts.h"
#include "support/snapshot.h"
#include "support/support.h"

namespace autotrain {
namespace {

using test::SmallNet;

Recipe cuda_recipe() {
  Recipe r = test::small_recipe();
  r.execution.device = "cuda";
  r.execution.deterministic = true;
  r.execution.memory.budget = *Budget::parse("1GiB");
  return r;
}

TEST(CudaMeter, RefusesBeyondTheLimitAndSaysWhat) {
  const auto device = open_run_device(cuda_recipe());
  const auto options = torch::TensorOptions().device(device->torch_device());
  const torch::Tensor held = torch::empty({int64_t{256} << 20}, options.dtype(torch::kUInt8));
  EXPECT_GE(device->memory().allocated_bytes(), 256 * kMiB);
  EXPECT_THROW(torch::empty({int64_t{2} << 30}, options.dtype(torch::kUInt8)), c10::OutOfMemoryError);
  const auto refusal = device->memory().last_refusal();
  ASSERT_TRUE(refusal);
  EXPECT_GE(refusal->requested_bytes, int64_t{2} << 30);
  EXPECT_GE(refusal->allocated_bytes, 256 * kMiB);
  device->memory().reset_peak();
  EXPECT_FALSE(device->memory().last_refusal());
}

TEST(CudaStep, TheFirstUpdatesAgreeWithTheCpu) {
  const auto losses = [](const std::string& device) {
    Recipe r = cuda_recipe();
    r.execution.device = device;
    r.execution.micro_batch = 13;  // two pieces and a remainder
    r.stop.updates = 3;
    std::vector<double> all;
    const auto data = test::small_data(512);
    Trainer trainer(r, test::small_task(), data, {.write_files = false});
    trainer.on_update([&](const UpdateRecord& u) { return all.push_back(u.loss), Flow::kContinue; });
    trainer.fit();
    return all;
  };
  const auto cpu = losses("cpu"), gpu = losses("cuda");
  ASSERT_EQ(cpu.size(), gpu.size());
  for (size_t i = 0; i < cpu.size(); ++i) EXPECT_NEAR(gpu[i] / cpu[i], 1, 1e-4);
}

TEST(CudaProbe, LeavesNoTraceInEveryPrecision) {
  const auto data = test::small_data(512), validation = test::small_data(64, 9);
  for (const Precision precision : {Precision::kFp32, Precision::kBf16, Precision::kFp16}) {
    Recipe r = cuda_recipe();
    r.execution.precision = precision;
    const auto parts = test::make_parts(r, test::small_task(SmallNet::Middle::kBatchNorm), data, &validation);
    const auto before = test::everything(*parts);
    EXPECT_TRUE(
        Probe(parts->workbench(), 0.9).run({8, 20, 8}, [](const ProbeRecord&) { return true; }).confirmed);
    test::expect_equal(test::everything(*parts), before);
  }
}

TEST(CudaStep, ASkippedWindowLeavesBuffersAsTheyWere) {
  const auto data = test::small_data(64);
  const auto parts = test::make_parts(cuda_recipe(), test::small_task(SmallNet::Middle::kBatchNorm), data);
  const std::vector<int64_t> indices = {0, 1, 2, 3}, epochs(4, 0);
  Batch batch = data.get(indices, SampleRandom(0, indices, epochs));
  batch.inputs[0][0] = INFINITY;
  const auto before = test::buffers_of(*parts);
  parts->task->module().train();
  parts->step.accumulate(batch.to(parts->device->torch_device()), 0, 0);
  EXPECT_FALSE(parts->step.finish(0.1).read().applied);
  test::expect_equal(test::buffers_of(*parts), before);
}

TEST(CudaTrainer, FillsTheBandAndTrains) {
  Recipe r = cuda_recipe();
  r.execution.precision = Precision::kAuto;
  r.execution.memory.budget = *Budget::parse("512MiB");
  r.batch.effective = 20000;
  r.optimizer.reference_batch = 20000;
  r.stop.updates = 5;
  const auto data = test::small_data(40000);
  Trainer trainer(r, test::small_task(SmallNet::Middle::kNothing, 1 << 13), data, {.write_files = false});
  const BatchPlan plan = trainer.plan();
  EXPECT_EQ(plan.search.reason, SearchReason::kInBand);
  EXPECT_GE(plan.search.fill, 0.8);
  EXPECT_LE(plan.search.fill, 0.9);
  const Summary summary = trainer.fit();
  EXPECT_EQ(summary.updates, 5);
  EXPECT_LE(summary.peak_bytes, plan.budget_bytes);
}

}  // namespace
}  // namespace autotrain
