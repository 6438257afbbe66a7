// Tests what only a GPU can show. Their label is gpu, and they are left out where there is none.
#include "device/cuda_device.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "autotrain/trainer.h"
#include "base/text.h"
#include "base/units.h"
#include "comm/group_exchange.h"
#include "data/image_dataset.h"
#include "device/device_error.h"
#include "device/gpu_processes.h"
#include "device/tf32.h"
#include "device/warm_up.h"
#include "model/losses.h"
#include "model/models.h"
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

// What the driver says of this process; the calling test is skipped where it hides processes.
std::optional<int64_t> own_bytes(const Device& device) {
  const auto processes = gpu_processes(device.bus_id());
  return processes ? processes->own_bytes() : std::nullopt;
}

TEST(CudaMeter, WhatTheDriverSaysOfThisProcessGrowsByWhatIsAllocated) {
  const auto device = open_run_device(cuda_recipe());
  const auto before = own_bytes(*device);
  if (!before) GTEST_SKIP() << "the driver does not say what this process holds";
  ASSERT_TRUE(device->own_at_start_bytes());
  EXPECT_NEAR(static_cast<double>(*before), static_cast<double>(*device->own_at_start_bytes()), 1.0 * kMiB);
  const auto options = torch::TensorOptions().device(device->torch_device()).dtype(torch::kUInt8);
  const torch::Tensor held = torch::empty({512 * kMiB}, options);
  EXPECT_NEAR(static_cast<double>(*own_bytes(*device) - *before), 512.0 * kMiB, 32.0 * kMiB);
  EXPECT_LE(device->memory().sample_outside_bytes(), 32 * kMiB);
}

// All that this process has on the device at a meter's baseline; of everybody where processes are hidden.
int64_t baseline_bytes() {
  const auto device = open_run_device(cuda_recipe());
  return device->own_at_start_bytes().value_or(device->used_by_others_bytes());
}

Recipe small_cnn_recipe() {
  Recipe r = cuda_recipe();
  r.data.train = {"fashion_mnist", {{"limit", int64_t{4096}}}};
  r.data.validation = Choice{"fashion_mnist", {{"split", std::string("test")}, {"limit", int64_t{1000}}}};
  r.model = {"cnn", {}};
  r.batch.effective = 1024;
  r.stop.updates = 8;
  r.execution.memory.budget = *Budget::parse("256MiB");
  return r;
}

TEST(CudaMeter, ABudgetOf256MiBRunsTheCnn) {
  for (const Precision precision : {Precision::kFp32, Precision::kAuto}) {
    Recipe r = small_cnn_recipe();
    r.execution.precision = precision;
    Trainer trainer = Trainer::from_recipe(r, {.write_files = false});
    const Summary summary = trainer.fit();
    EXPECT_EQ(summary.updates, 8);
    EXPECT_LE(summary.peak_bytes, 256 * kMiB);
  }
}

TEST(CudaMeter, TheBaselineIsTheSameWhoeverRanBefore) {
  const int64_t before = baseline_bytes();
  Trainer::from_recipe(small_cnn_recipe(), {.write_files = false}).fit();
  EXPECT_NEAR(static_cast<double>(baseline_bytes()), static_cast<double>(before), 64.0 * kMiB)
      << "what a model needs beside the warm-up is little";
}

TEST(CudaMeter, TheWarmUpMakesEveryPassAndMovesNoGeneratorOfARun) {
  const torch::Device gpu(torch::kCUDA, 0);
  torch::manual_seed(5);
  const auto state = [&] {
    return std::pair(at::globalContext().defaultGenerator(gpu).get_state().clone(),
                     at::globalContext().defaultGenerator(torch::kCPU).get_state().clone());
  };
  const auto before = state();
  const auto device = open_run_device(cuda_recipe());
  const auto after = state();
  EXPECT_TRUE(after.first.equal(before.first) && after.second.equal(before.second));
  GpuWarmUp how{.device = gpu,
                .generator = at::globalContext().defaultGenerator(gpu).clone(),
                .products = {torch::kFloat32, torch::kFloat16}};
  if (device->has_native_bf16()) how.products.push_back(torch::kBFloat16);
  const auto failed = warm_up_gpu(how);
  EXPECT_TRUE(failed.empty()) << join(failed, "\n");
}

TEST(CudaDevice, AnAllocatorThatCannotRefuseIsNamed) {
  ::setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", "1", /*overwrite=*/1);
  const Error error = test::expect_error(ExitCode::kUsage, [] { open_run_device(cuda_recipe()); });
  ::unsetenv("PYTORCH_NO_CUDA_MEMORY_CACHING");
  EXPECT_EQ(error.where(), "PYTORCH_NO_CUDA_MEMORY_CACHING");
}

// As a search over somebody else's step opens one.
TEST(CudaDevice, OneThatIsOpenedForAProgramLeavesItsChoicesAndItsStream) {
  at::Context& context = at::globalContext();
  const bool benchmark = context.benchmarkCuDNN(), deterministic = context.deterministicCuDNN();
  const Tf32Settings tf32 = Tf32Settings::now();
  context.setBenchmarkCuDNN(true);
  context.setDeterministicCuDNN(true);
  // By the newer interface alone: the older one throws then.
  context.setFloat32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL, at::Float32Precision::TF32);
  const c10::impl::VirtualGuardImpl gpus(torch::kCUDA);
  const torch::Device before = gpus.getDevice(), last(torch::kCUDA, gpus.deviceCount() - 1);
  const c10::Stream program = gpus.getStreamFromGlobalPool(last, /*isHighPriority=*/true);
  {
    const c10::StreamGuard on_its_stream(program);
    gpus.setDevice(before);
    const auto device = open_cuda_device({.device = "cuda", .budget = {}, .deterministic = {}}, last.index());
    EXPECT_EQ(gpus.getDevice(), before);
    EXPECT_TRUE(context.benchmarkCuDNN() && context.deterministicCuDNN());
    EXPECT_EQ(context.float32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL),
              at::Float32Precision::TF32);
    EXPECT_NE(gpus.getStream(last), program);
  }
  gpus.setDevice(before);
  context.setBenchmarkCuDNN(benchmark);
  context.setDeterministicCuDNN(deterministic);
  tf32.put_in_force();
}

TEST(CudaPlanner, ABudgetThatIsTooSmallIsToldOneThatIsEnough) {
  Recipe r = small_cnn_recipe();
  r.data.validation.reset();
  r.model = {"cnn",
             {{"hidden", int64_t{1024}}}};  // 38 MiB of weights and moments, and as much again for gradients
  r.execution.memory.budget = *Budget::parse("48MiB");
  const auto plan = [&] { return Trainer::from_recipe(r, {.write_files = false}).plan(); };
  const Error error = test::expect_error(ExitCode::kDoesNotFit, [&] { plan(); });
  const std::string hint = error.hint(), key = "execution.memory.budget: ";
  const size_t at = hint.find(key);
  ASSERT_NE(at, std::string::npos) << hint;
  const std::string budget = hint.substr(at + key.size(), hint.find(' ', at + key.size()) - at - key.size());
  ASSERT_TRUE(Budget::parse(budget)) << hint;
  r.execution.memory.budget = *Budget::parse(budget);
  EXPECT_GE(plan().micro_batch, 1);
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

// ------------------------------------------------------------------ determinism

using Tensors = std::vector<torch::Tensor>;

Tensors weights_of(torch::nn::Module& module) {
  Tensors weights;
  for (const torch::Tensor& parameter : module.parameters())
    weights.push_back(parameter.detach().cpu().clone());
  return weights;
}

// Of a transformer whose heads are as wide as those that attention's fused kernels are for.
Tensors trained_transformer(uint64_t seed) {
  Recipe r = cuda_recipe();
  r.seed = static_cast<int64_t>(seed);
  r.data.train = {"synthetic",
                  {{"kind", std::string("tokens")},
                   {"samples", int64_t{512}},
                   {"shape", std::vector<int64_t>{256}},
                   {"classes", int64_t{64}}}};
  r.model = {"transformer", {{"layers", int64_t{2}}, {"width", int64_t{128}}, {"heads", int64_t{2}}}};
  r.batch.effective = 64;
  r.execution.micro_batch = 32;
  r.execution.precision = Precision::kBf16;
  r.stop.updates = 5;
  Trainer trainer = Trainer::from_recipe(r, {.write_files = false});
  trainer.fit();
  return weights_of(trainer.module());
}

TEST(CudaDeterminism, ATransformerInBf16ComesToTheSameBits) {
  const Tensors first = trained_transformer(1);
  for (int again = 0; again < 2; ++again) {
    const Tensors second = trained_transformer(1);
    ASSERT_EQ(first.size(), second.size());
    for (size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(first[i].equal(second[i])) << "parameter " << i;
  }
  EXPECT_FALSE(first[0].equal(trained_transformer(2)[0])) << "another seed is another model";
}

TEST(CudaOffload, WhatLiesInMainMemoryMeanwhileComesBackWithTheSameBits) {
  const auto trained = [](bool offload) {
    Recipe r = small_cnn_recipe();
    r.execution.memory.budget = *Budget::parse("1GiB");
    r.execution.micro_batch = 500;  // two pieces and a remainder
    r.execution.cuda_graphs = CudaGraphs::kOff;
    r.execution.offload = offload;
    Trainer trainer = Trainer::from_recipe(r, {.write_files = false});
    trainer.fit();
    return weights_of(trainer.module());
  };
  const Tensors stayed = trained(false), moved = trained(true);
  ASSERT_EQ(moved.size(), stayed.size());
  for (size_t i = 0; i < stayed.size(); ++i) EXPECT_TRUE(moved[i].equal(stayed[i])) << "parameter " << i;
}

// Pools to 2 × 2, whose backward pass adds in any order on a GPU.
struct PoolingNet : torch::nn::Module {
  PoolingNet() { linear = register_module("linear", torch::nn::Linear(4, 4)); }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor images = (x * linear->weight.sum()).unsqueeze(2).unsqueeze(3).expand({-1, -1, 6, 6});
    return linear->forward(at::adaptive_avg_pool2d(images.contiguous(), {2, 2}).flatten(1).slice(1, 0, 4));
  }
  torch::nn::Linear linear{nullptr};
};

TEST(CudaDeterminism, AnOperatorThatHasNoneEndsTheRunBeforeItBegins) {
  const auto data = test::small_data(512);
  for (const std::optional<int64_t> micro_batch : {std::optional<int64_t>(32), std::optional<int64_t>()}) {
    Recipe r = cuda_recipe();
    r.execution.micro_batch = micro_batch;
    int64_t updates = 0;
    const Error error = test::expect_error(ExitCode::kBadRecipe, [&] {
      Trainer trainer(r, supervised(std::make_shared<PoolingNet>(), cross_entropy()), data,
                      {.write_files = false});
      trainer.on_update([&](const UpdateRecord&) { return ++updates, Flow::kContinue; });
      trainer.fit();
    });
    EXPECT_EQ(updates, 0);
    EXPECT_EQ(error.where(), "execution.deterministic");
    EXPECT_TRUE(test::holds(error.problem(), "adaptive_avg_pool2d_backward_cuda"));
  }
  Recipe r = cuda_recipe();
  r.execution.deterministic = false;
  r.execution.micro_batch = 32;
  r.stop.updates = 2;
  Trainer trainer(r, supervised(std::make_shared<PoolingNet>(), cross_entropy()), data,
                  {.write_files = false});
  EXPECT_EQ(trainer.fit().updates, 2) << "a later run is not held to an earlier one's";
}

// ------------------------------------------------------------------ time

TEST(CudaTimeline, EveryStretchHasTheTimeOfItsOwnWork) {
  const auto device = open_run_device(cuda_recipe());
  const torch::Tensor a = torch::ones({2048, 2048}, device->torch_device());
  Timeline timeline(device->torch_device());
  for (int i = 0; i < 20; ++i) a.mm(a);  // loads the kernel
  timeline.restart();
  std::vector<Timeline::Stretch> stretches;
  for (const int products : {20, 400, 20, 200}) {
    timeline.enter(Activity::kForward);
    for (int i = 0; i < products; ++i) a.mm(a);
    timeline.enter(Activity::kOther);
    stretches.push_back(timeline.cut());
  }
  std::vector<double> seconds, starts;
  for (const Timeline::Stretch& stretch : stretches) {
    const auto spans = stretch.read();
    seconds.push_back(seconds_by_activity(spans)[static_cast<size_t>(Activity::kForward)]);
    starts.push_back(spans.front().start);
  }
  EXPECT_GT(seconds[1], 5 * seconds[0]);
  EXPECT_GT(seconds[1], 5 * seconds[2]);
  EXPECT_GT(seconds[3], 3 * seconds[2]);
  for (size_t i = 1; i < starts.size(); ++i) EXPECT_NEAR(starts[i], starts[i - 1] + seconds[i - 1], 0.01);
}

// ------------------------------------------------------------------ a device that is lost

// In a process of its own, which is started anew, for its device cannot be used any more.
TEST(CudaLostDevice, ATargetBeyondTheClassesEndsWithTheCodeAndTheCheckpoint) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto train = [] {
    const LostDeviceScope lost([](const DeviceLost& error) -> DeviceLost {
      std::fprintf(stderr, "%s\n", error.what());
      std::_Exit(static_cast<int>(error.code()));
    });
    const TemporaryFolder folder;
    Recipe r = cuda_recipe();
    r.execution.cuda_graphs = CudaGraphs::kOff;  // whose trials would be among the calls that are counted
    r.execution.micro_batch = 32;
    r.checkpoint.every = *Interval::parse("2 updates");
    r.stop.updates = 20;
    Loss loss = cross_entropy();
    loss.terms = [terms = loss.terms, calls = 0](const torch::Tensor& prediction,
                                                 const torch::Tensor& target) mutable {
      return terms(prediction, ++calls == 12 ? target + 1000 : target);
    };
    const auto data = test::small_data(512);
    Trainer(r, supervised(std::make_shared<SmallNet>(), std::move(loss)), data, {.output = folder / "run"})
        .fit();
  };
  EXPECT_EXIT(train(), testing::ExitedWithCode(72), "out of range(.|\n)*is the last one that is saved");
}

// ------------------------------------------------------------------ terms of a task on the host

// A task whose weights, or everything it gives, come on the CPU.
class TermsOnTheHost final : public Task {
 public:
  TermsOnTheHost(std::unique_ptr<Task> task, bool sums) : task_(std::move(task)), sums_(sums) {}

  torch::nn::Module& module() override { return task_->module(); }
  LossTerms loss(const Batch& batch) override { return on_the_host(task_->loss(batch)); }
  EvaluationTerms evaluate(const Batch& batch) override {
    EvaluationTerms terms = task_->evaluate(batch);
    terms.loss = on_the_host(terms.loss);
    for (Measured& measured : terms.metrics) {
      // Of every second batch, and of every second sum.
      for (size_t i = batches_++ % 2; i < measured.state.sums.size(); i += 2)
        measured.state.sums[i] = measured.state.sums[i].cpu();
    }
    return terms;
  }

 private:
  LossTerms on_the_host(const LossTerms& terms) const {
    return {sums_ ? terms.sum.cpu() : terms.sum, terms.weight.cpu()};
  }

  std::unique_ptr<Task> task_;
  bool sums_;
  size_t batches_ = 0;
};

std::unique_ptr<Task> weighted_task() {
  torch::manual_seed(1);
  return supervised(std::make_shared<SmallNet>(), cross_entropy({.class_weights = {1, 2, 0.5, 1}}));
}

TEST(CudaTask, WeightsAndSumsMayComeOnEitherDevice) {
  Recipe r = cuda_recipe();
  r.execution.micro_batch = 13;
  r.evaluation.micro_batch = 20;
  r.evaluation.every = *Interval::parse("3 updates");
  r.stop.updates = 6;
  const auto train = test::small_data(512), validation = test::small_data(100, 9);
  const auto losses = [&](std::unique_ptr<Task> task) {
    std::vector<double> all;
    Trainer trainer(r, std::move(task), train, validation, {.write_files = false});
    trainer.on_update([&](const UpdateRecord& u) { return all.push_back(u.loss), Flow::kContinue; });
    for (const auto& [name, value] : trainer.fit().final) all.push_back(value);
    return all;
  };
  const std::vector<double> plain = losses(weighted_task());
  for (const bool sums : {false, true})
    EXPECT_EQ(losses(std::make_unique<TermsOnTheHost>(weighted_task(), sums)), plain) << sums;
}

TEST(CudaTask, ClassWeightsAgreeWithTheCpus) {
  const auto first = [](const std::string& device) {
    Recipe r = cuda_recipe();
    r.execution.device = device;
    r.execution.micro_batch = 13;
    r.stop.updates = 1;
    double loss = 0;
    const auto data = test::small_data(512);
    Trainer trainer(r, weighted_task(), data, {.write_files = false});
    trainer.on_update([&](const UpdateRecord& u) { return loss = u.loss, Flow::kContinue; });
    trainer.fit();
    return loss;
  };
  EXPECT_NEAR(first("cuda") / first("cpu"), 1, 1e-5);
}

TEST(CudaTask, TheDetectorLearnsAsOnACpu) {
  torch::manual_seed(3);
  const torch::Tensor images = torch::rand({64, 3, 32, 32});
  torch::Tensor boxes = torch::rand({64, 2, 5}) * 0.5 + 0.25;
  boxes.select(2, 0).copy_(torch::arange(128).reshape({64, 2}) % 3 - 1);  // -1: no box
  const TensorDataset data(images, boxes);
  const auto losses = [&](const std::string& device) {
    Recipe r = cuda_recipe();
    r.execution.device = device;
    r.execution.micro_batch = 16;
    r.evaluation.monitor = "loss";
    r.stop.updates = 3;
    torch::manual_seed(1);
    auto network =
        make_model({"detector", {{"width", int64_t{8}}, {"blocks", int64_t{3}}}}, {{3, 32, 32}, 2, 0, {}});
    std::vector<double> all;
    Trainer trainer(r, supervised(std::move(network), make_loss({"detection", {}})), data, data,
                    {.write_files = false});
    trainer.on_update([&](const UpdateRecord& u) { return all.push_back(u.loss), Flow::kContinue; });
    for (const auto& [name, value] : trainer.fit().final) all.push_back(value);
    return all;
  };
  const auto cpu = losses("cpu"), gpu = losses("cuda");
  ASSERT_EQ(cpu.size(), gpu.size());
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(gpu[i] / cpu[i], 1, 1e-3) << i;
}

}  // namespace
}  // namespace autotrain
