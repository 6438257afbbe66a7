// Tests what only a GPU can show. Their label is gpu, and they are left out where there is none.
#include "device/cuda_device.h"

#include <nlohmann/json.hpp>
#include <sstream>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "autotrain/trainer.h"
#include "base/units.h"
#include "comm/group_exchange.h"
#include "data/image_dataset.h"
#include "plan/probe.h"
#include "support/run_workbench.h"
#include "support/snapshot.h"
#include "support/support.h"

namespace autotrain {
namespace {

using test::SmallNet;
using test::TemporaryFolder;

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

// Of the first updates on a device.
std::vector<double> first_losses(Recipe r, const std::string& device) {
  r.execution.device = device;
  r.execution.micro_batch = 13;  // two pieces and a remainder
  r.stop.updates = 3;
  std::vector<double> all;
  const auto data = test::small_data(512);
  Trainer trainer(r, test::small_task(), data, {.write_files = false});
  trainer.on_update([&](const UpdateRecord& u) { return all.push_back(u.loss), Flow::kContinue; });
  trainer.fit();
  return all;
}

TEST(CudaStep, TheFirstUpdatesAgreeWithTheCpu) {
  const auto cpu = first_losses(cuda_recipe(), "cpu"), gpu = first_losses(cuda_recipe(), "cuda");
  ASSERT_EQ(cpu.size(), gpu.size());
  for (size_t i = 0; i < cpu.size(); ++i) EXPECT_NEAR(gpu[i] / cpu[i], 1, 1e-4);
}

TEST(CudaStep, EveryOptimizerAgreesWithTheCpu) {
  for (const OptimizerRow& row : optimizer_table()) {
    Recipe r = cuda_recipe();
    r.optimizer.algorithm = {row.spec.name, {}};
    r.optimizer.weight_decay = 0.1;
    r.optimizer.groups = {{.match = {"first.*"}, .lr_factor = 0.5}};
    const auto cpu = first_losses(r, "cpu"), gpu = first_losses(r, "cuda");
    ASSERT_EQ(cpu.size(), gpu.size());
    for (size_t i = 0; i < cpu.size(); ++i) EXPECT_NEAR(gpu[i] / cpu[i], 1, 1e-3) << row.spec.name;
  }
}

TEST(CudaProbe, LeavesNoTraceInEveryPrecision) {
  const auto data = test::small_data(512), validation = test::small_data(64, 9);
  for (const Precision precision : {Precision::kFp32, Precision::kBf16, Precision::kFp16}) {
    Recipe r = cuda_recipe();
    r.execution.precision = precision;
    const auto bench =
        test::make_workbench(r, test::small_task(SmallNet::Middle::kBatchNorm), data, &validation);
    const auto before = test::everything(*bench);
    EXPECT_TRUE(Probe(*bench, 0.9).run({8, 20, 8}, [](const ProbeRecord&) { return true; }).confirmed);
    test::expect_equal(test::everything(*bench), before);
  }
}

TEST(CudaStep, ASkippedWindowLeavesBuffersAsTheyWere) {
  const auto data = test::small_data(64);
  const auto bench =
      test::make_workbench(cuda_recipe(), test::small_task(SmallNet::Middle::kBatchNorm), data);
  const std::vector<int64_t> indices = {0, 1, 2, 3}, epochs(4, 0);
  Batch batch = data.get(indices, SampleRandom(0, indices, epochs));
  batch.inputs[0][0] = INFINITY;
  const auto before = test::buffers_of(*bench);
  bench->task->module().train();
  bench->step.accumulate(batch.to(bench->device->torch_device()), 0, 0);
  EXPECT_FALSE(bench->step.finish(0.1).read().applied);
  test::expect_equal(test::buffers_of(*bench), before);
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

ImageDataset::Content random_images(int64_t count, int64_t channels, int64_t height, int64_t width) {
  torch::manual_seed(1);
  return {.images = torch::randint(256, {count, channels, height, width}, torch::kUInt8),
          .labels = torch::arange(count),
          .classes = count,
          .mean = {0.1, 0.2, 0.3},
          .deviation = {0.5, 0.3, 0.7}};
}

TEST(CudaImages, GatheredOnTheGpuABatchHasTheBitsOfTheCpu) {
  const torch::Device gpu(torch::kCUDA, 0);
  for (const auto& [channels, height, width] :
       {std::tuple<int64_t, int64_t, int64_t>{1, 28, 28}, {3, 7, 13}, {5, 1, 1}}) {
    for (const AugmentRecipe& augment :
         {AugmentRecipe{}, AugmentRecipe{.flip = true}, AugmentRecipe{.flip = true, .crop_padding = 9}}) {
      const auto content = random_images(40, channels, height, width);
      const ImageDataset here(content, augment);
      ImageDataset there(content, augment);
      there.preload({.device = gpu});
      std::vector<int64_t> indices(200), epochs(200);
      for (int64_t i = 0; i < 200; ++i)
        indices[static_cast<size_t>(i)] = i * 17 % 40, epochs[static_cast<size_t>(i)] = i % 3;
      const Batch a = here.get(indices, SampleRandom(4, indices, epochs));
      const Batch b = there.get(indices, SampleRandom(4, indices, epochs));
      EXPECT_TRUE(b.inputs.is_cuda());
      EXPECT_TRUE(b.inputs.cpu().equal(a.inputs));
      EXPECT_TRUE(b.targets.equal(a.targets));
    }
  }
}

TEST(CudaImages, PreloadedToTheDeviceTrainingIsTheSame) {
  const auto losses = [](Preload preload) {
    Recipe recipe = cuda_recipe();
    recipe.data.train = {"fashion_mnist", {{"limit", int64_t{512}}}};
    recipe.data.augment = {.flip = true, .crop_padding = 2};
    recipe.model = {"cnn", {}};
    recipe.batch.effective = 128;
    recipe.stop.updates = 8;
    recipe.execution.micro_batch = 50;
    recipe.execution.loader.preload = preload;
    Trainer trainer = Trainer::from_recipe(recipe, {.write_files = false});
    std::vector<double> all;
    trainer.on_update([&](const UpdateRecord& u) { return all.push_back(u.loss), Flow::kContinue; });
    trainer.fit();
    return all;
  };
  EXPECT_EQ(losses(Preload::kDevice), losses(Preload::kOff));
}

// Batches that lie on the device are gathered where they are used, the others are copied one ahead: in the
// trial as in the run. With one piece, with two, and with a remainder.
TEST(CudaTrainer, ARunPeaksWhereItsTrialDid) {
  for (const Preload preload : {Preload::kDevice, Preload::kOff}) {
    for (const int64_t effective : {4000, 8000, 10000}) {
      Recipe recipe = cuda_recipe();
      recipe.data.train = {"fashion_mnist", {}};
      recipe.data.validation = Choice{"fashion_mnist", {{"split", std::string("test")}}};
      recipe.data.augment = {.flip = true, .crop_padding = 2};
      recipe.model = {"cnn", {}};
      recipe.batch.effective = effective;
      recipe.optimizer.reference_batch = effective;
      recipe.stop.updates = 30;
      recipe.evaluation.every = *Interval::parse("10 updates");
      recipe.execution.micro_batch = 4000;
      recipe.execution.memory.budget = *Budget::parse("4GiB");
      recipe.execution.loader.preload = preload;
      Trainer trainer = Trainer::from_recipe(recipe, {.write_files = false});
      const int64_t planned = trainer.plan().peak_bytes;
      const int64_t peak = trainer.fit().peak_bytes;
      EXPECT_NEAR(static_cast<double>(peak) / static_cast<double>(planned), 1, 0.01)
          << (preload == Preload::kDevice ? "on the device" : "uploaded") << ", effective " << effective
          << ": " << peak << " and " << planned;
    }
  }
}

TEST(CudaTelemetry, SaysWhatTheGpuDoes) {
  const TemporaryFolder folder;
  Recipe recipe = cuda_recipe();
  recipe.execution.telemetry = 0.05;
  recipe.stop.updates = 300;
  const auto data = test::small_data(512);
  Trainer(recipe, test::small_task(), data, {.output = folder / "run"}).fit();
  std::istringstream lines(test::slurp(folder / "run" / "telemetry.jsonl"));
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  const auto row = nlohmann::json::parse(line);
  EXPECT_GT(row.at("gpu_used_bytes"), 0);
  EXPECT_GE(row.at("gpu_fraction"), 0);
  EXPECT_LE(row.at("gpu_fraction"), 1);
}

// Nothing is queued that would give the copy time.
TEST(CudaUpload, NothingReadsABatchBeforeItHasArrived) {
  const auto device = open_run_device(cuda_recipe());
  constexpr int64_t kSize = 48 << 20;
  const torch::Tensor pinned = torch::empty({kSize}, torch::kFloat32).pin_memory();
  for (int64_t round = 1; round <= 20; ++round) {
    pinned.fill_(static_cast<double>(round));
    const Batch batch = device->upload({.inputs = pinned, .targets = {}, .samples = kSize});
    EXPECT_EQ(batch.inputs.min().item<float>(), static_cast<float>(round));
  }
}

TEST(CudaUpload, TheHostDoesNotRunFarAhead) {
  const auto device = open_run_device(cuda_recipe());
  const torch::Tensor big = torch::randn({4096, 4096}, device->torch_device());
  constexpr int64_t kSize = 32 << 20;
  const torch::Tensor pinned = torch::ones({kSize}, torch::kFloat32).pin_memory();
  torch::Tensor sum = big.mm(big).sum();
  device->synchronize();
  device->memory().empty_cache();
  device->memory().reset_peak();
  const int64_t before = device->memory().reserved_bytes();
  for (int64_t round = 0; round < 64; ++round) {
    const Batch batch = device->upload({.inputs = pinned, .targets = {}, .samples = kSize});
    sum += big.mm(big).sum() + batch.inputs.sum();
  }
  device->synchronize();
  // What is reserved, since a batch that is still worked on counts as freed when the host lets go of it.
  const int64_t batch = 128 * kMiB, product = 64 * kMiB, rounding = 48 * kMiB;
  EXPECT_LE(device->memory().reserved_bytes() - before, 2 * batch + product + rounding);
}

// Copies run beside queued work; nothing may be read before it has arrived, nor overwritten while it is read.
TEST(CudaUpload, EveryBatchArrivesWholeWhileTheDeviceComputes) {
  const auto device = open_run_device(cuda_recipe());
  const torch::Tensor big = torch::randn({2048, 2048}, device->torch_device());
  std::vector<torch::Tensor> sums;
  constexpr int64_t kRounds = 200, kSize = 1 << 20;
  for (int64_t round = 0; round < kRounds; ++round) {
    const torch::Tensor pinned =
        torch::full({kSize}, static_cast<double>(round), torch::kFloat32).pin_memory();
    const Batch batch = device->upload({.inputs = pinned, .targets = {}, .samples = kSize});
    const torch::Tensor busy = big.mm(big);
    sums.push_back(batch.inputs.sum(torch::kFloat64) + 0 * busy.sum());
  }
  for (int64_t round = 0; round < kRounds; ++round) {
    EXPECT_EQ(sums[static_cast<size_t>(round)].item<double>(), static_cast<double>(round * kSize));
  }
}

// NCCL takes one rank for each GPU, so here there is but one: it is started, and passes tensors to itself.
TEST(CudaExchange, NcclReturnsWhenTheTensorsHaveArrived) {
  const auto device = open_run_device(cuda_recipe());
  const auto exchange = make_nccl_exchange(c10::make_intrusive<c10d::HashStore>(), Place(), {});
  const torch::Tensor big = torch::randn({4096, 4096}, device->torch_device());
  for (const int64_t count : {1, 1000, 1 << 22}) {
    const torch::Tensor sent = big.mm(big).sum() * 0 + torch::arange(count, big.options());
    torch::Tensor received = torch::zeros_like(sent);
    exchange->to_all(received, sent);
    exchange->spread(received);
    exchange->copy_from_first(received);
    EXPECT_TRUE(received.cpu().equal(torch::arange(count, torch::kFloat32))) << count;
  }
}

}  // namespace
}  // namespace autotrain
