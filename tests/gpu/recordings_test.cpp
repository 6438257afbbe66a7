// CUDA graphs, which only a GPU has: the same bits with and without, and what cannot be recorded.
#include <cuda_runtime_api.h>

#include <algorithm>

#include "autotrain/trainer.h"
#include "base/units.h"
#include "device/device.h"
#include "measure/recorded_forward.h"
#include "support/small_run.h"

namespace autotrain {
namespace {

using test::SmallNet;
using test::TemporaryFolder;

Recipe graph_recipe(CudaGraphs graphs) {
  Recipe r = test::typed_recipe();
  r.execution.device = "cuda";
  r.execution.deterministic = true;
  r.execution.cuda_graphs = graphs;
  r.execution.memory.budget = *Budget::parse("1GiB");
  r.execution.search.plan_cache = false;
  r.optimizer.clip_norm = 1.0;
  r.average.half_life = 500;
  r.stop = {};
  r.stop.updates = 24;
  return r;
}

// What the run left: weights, averages, optimizer and scaler; and whether it used graphs.
struct Left {
  std::string model, optimizer;
  bool graphs = false;
  std::string why;
  std::vector<double> losses, norms;
};

Left left_by(const Recipe& recipe, const std::filesystem::path& folder) {
  const std::unique_ptr<Trainer> trainer =
      std::make_unique<Trainer>(Trainer::from_recipe(recipe, {.output = folder}));
  trainer->fit();
  const auto checkpoint = folder / "checkpoints" / ("update-" + std::to_string(*recipe.stop.updates));
  return {test::slurp(checkpoint / "model.safetensors"),
          test::slurp(checkpoint / "optimizer.safetensors"),
          trainer->plan().cuda_graphs,
          trainer->plan().cuda_graphs_why,
          test::column(folder, "loss"),
          test::column(folder, "grad_norm")};
}

void expect_same_with_and_without(Recipe recipe) {
  const TemporaryFolder folder;
  recipe.execution.cuda_graphs = CudaGraphs::kOff;
  const Left without = left_by(recipe, folder / "without");
  recipe.execution.cuda_graphs = CudaGraphs::kOn;
  const Left with = left_by(recipe, folder / "with");
  EXPECT_FALSE(without.graphs);
  EXPECT_TRUE(with.graphs) << with.why;
  EXPECT_EQ(with.losses, without.losses);
  EXPECT_EQ(with.norms, without.norms);
  EXPECT_TRUE(with.model == without.model) << "the weights differ";
  EXPECT_TRUE(with.optimizer == without.optimizer) << "the optimizer's state differs";
}

Recipe cnn_recipe() {
  Recipe r = graph_recipe(CudaGraphs::kOff);
  r.data.train = {"synthetic", {{"kind", std::string("images")}, {"samples", int64_t{2000}}}};
  r.model = {"cnn", {}};
  r.batch.effective = 100;
  r.execution.micro_batch = 34;  // two pieces and a remainder
  return r;
}

Recipe transformer_recipe() {
  Recipe r = graph_recipe(CudaGraphs::kOff);
  r.data.train = {"synthetic",
                  {{"kind", std::string("tokens")},
                   {"samples", int64_t{2000}},
                   {"shape", std::vector<int64_t>{64}},
                   {"classes", int64_t{100}}}};
  r.model = {"transformer", {{"width", int64_t{64}}, {"layers", int64_t{2}}, {"dropout", 0.1}}};
  r.batch.effective = 40;
  r.execution.micro_batch = 16;
  return r;
}

TEST(CudaRecordings, AConvolutionalRunHasTheSameBits) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16, Precision::kFp16}) {
    Recipe r = cnn_recipe();
    r.execution.precision = precision;
    expect_same_with_and_without(r);
  }
}

TEST(CudaRecordings, ATransformerWithDropoutHasTheSameBits) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    Recipe r = transformer_recipe();
    r.execution.precision = precision;
    expect_same_with_and_without(r);
  }
}

TEST(CudaRecordings, EveryOptimizerHasTheSameBits) {
  for (const OptimizerRow& row : optimizer_table()) {
    SCOPED_TRACE(row.spec.name);
    Recipe r = cnn_recipe();
    r.optimizer.algorithm = {row.spec.name, {}};
    r.optimizer.weight_decay = 0.05;
    r.optimizer.groups = {{.match = {"*bias"}, .lr_factor = 0.3}};
    expect_same_with_and_without(r);
  }
}

// The first windows overflow until the scale is low enough.
TEST(CudaRecordings, SkippedUpdatesHaveTheSameBits) {
  Recipe r = cnn_recipe();
  r.execution.precision = Precision::kFp16;
  r.execution.scaler.initial_scale = 1e9;
  expect_same_with_and_without(r);
  const TemporaryFolder folder;
  EXPECT_GT(Trainer::from_recipe(r, {.output = folder / "run"}).fit().skipped_updates, 0);
}

TEST(CudaRecordings, ARunThatWasResumedHasTheSameBits) {
  const TemporaryFolder folder;
  Recipe r = transformer_recipe();
  r.execution.cuda_graphs = CudaGraphs::kOn;
  const Left straight = left_by(r, folder / "straight");
  ASSERT_TRUE(straight.graphs) << straight.why;
  {
    Trainer trainer = Trainer::from_recipe(r, {.output = folder / "run"});
    trainer.on_update([](const UpdateRecord& u) { return u.update == 9 ? Flow::kStop : Flow::kContinue; });
    trainer.fit();
  }
  Trainer::from_recipe(r, {.output = folder / "run", .resume = true}).fit();
  EXPECT_EQ(test::column(folder / "run", "loss"), straight.losses);
}

// Its forward pass does what a test asks of it.
class OddTask final : public Task {
 public:
  enum class Oddity { kNone, kWaits, kCounts, kShapes };
  explicit OddTask(Oddity oddity) : oddity_(oddity) {
    torch::manual_seed(11);
    net_ = std::make_shared<SmallNet>(SmallNet::Middle::kDropout);
  }
  torch::nn::Module& module() override { return *net_; }
  LossTerms loss(const Batch& batch) override {
    torch::Tensor logits = net_->forward(batch.inputs);
    if (oddity_ == Oddity::kWaits && logits.sum().item<float>() > 1e30) logits = logits * 2;
    if (oddity_ == Oddity::kCounts) logits = logits * static_cast<double>(1 + calls_++ % 7);
    torch::Tensor losses = logits.square().sum(1);
    if (oddity_ == Oddity::kShapes) losses = losses.masked_select(losses > 0.1);
    return {losses.sum(), torch::full({}, static_cast<double>(batch.samples), logits.options())};
  }

 private:
  Oddity oddity_;
  int64_t calls_ = 0;
  std::shared_ptr<SmallNet> net_;
};

struct OddRun {
  BatchPlan plan;
  std::vector<double> losses;
};

OddRun run_of(OddTask::Oddity oddity, CudaGraphs graphs) {
  const auto data = test::small_data(1000);
  Trainer trainer(graph_recipe(graphs), std::make_unique<OddTask>(oddity), data, {.write_files = false});
  OddRun run;
  trainer.on_update([&](const UpdateRecord& u) { return run.losses.push_back(u.loss), Flow::kContinue; });
  run.plan = trainer.plan();
  trainer.fit();
  return run;
}

TEST(CudaRecordings, WhatCannotBeRecordedIsLaunchedAndNamed) {
  using Oddity = OddTask::Oddity;
  EXPECT_TRUE(run_of(Oddity::kNone, CudaGraphs::kOn).plan.cuda_graphs);
  for (const Oddity oddity : {Oddity::kWaits, Oddity::kShapes, Oddity::kCounts}) {
    const OddRun run = run_of(oddity, CudaGraphs::kOn);
    EXPECT_FALSE(run.plan.cuda_graphs);
    EXPECT_FALSE(run.plan.cuda_graphs_why.empty());
    std::cout << "  " << run.plan.cuda_graphs_why << "\n";
    EXPECT_EQ(run.losses.size(), 24u);
    if (oddity != Oddity::kCounts) {
      EXPECT_EQ(run.losses, run_of(oddity, CudaGraphs::kOff).losses);
    }
  }
  // The allocator and the generators are as they were before the attempts.
  EXPECT_EQ(run_of(Oddity::kNone, CudaGraphs::kOff).losses, run_of(Oddity::kNone, CudaGraphs::kOn).losses);
}

// Its weight of the loss rises with the updates.
class RisingTask final : public Task {
 public:
  torch::nn::Module& module() override { return *net_; }
  void begin_update(const UpdateInfo& info) override {
    weight_ = std::min(1.0, 0.1 * static_cast<double>(info.update));
  }
  LossTerms loss(const Batch& batch) override {
    const torch::Tensor losses = net_->forward(batch.inputs).square().sum(1) * weight_;
    return {losses.sum(), torch::full({}, static_cast<double>(batch.samples), losses.options())};
  }

 private:
  double weight_ = 0;
  std::shared_ptr<SmallNet> net_ = [] {
    torch::manual_seed(11);
    return std::make_shared<SmallNet>();
  }();
};

TEST(CudaRecordings, ATaskThatBeginsUpdatesItselfIsLaunched) {
  const auto losses = [](CudaGraphs graphs) {
    const auto data = test::small_data(1000);
    Trainer trainer(graph_recipe(graphs), std::make_unique<RisingTask>(), data, {.write_files = false});
    std::vector<double> all;
    trainer.on_update([&](const UpdateRecord& u) { return all.push_back(u.loss), Flow::kContinue; });
    EXPECT_FALSE(trainer.plan().cuda_graphs);
    trainer.fit();
    return all;
  };
  EXPECT_EQ(losses(CudaGraphs::kOn), losses(CudaGraphs::kOff));
}

TEST(CudaRecordings, TheirMemoryIsInTheTrial) {
  for (const bool graphs : {false, true}) {
    const TemporaryFolder folder;
    Recipe r = cnn_recipe();
    r.execution.cuda_graphs = graphs ? CudaGraphs::kOn : CudaGraphs::kOff;
    r.execution.micro_batch = 256;
    r.batch.effective = 1000;
    r.stop.updates = 8;
    Trainer trainer = Trainer::from_recipe(r, {.output = folder / "run"});
    const BatchPlan plan = trainer.plan();
    const Summary summary = trainer.fit();
    std::cout << "  graphs " << plan.cuda_graphs << ": run's peak ÷ trial's "
              << static_cast<double>(summary.peak_bytes) / static_cast<double>(plan.peak_bytes) << "\n";
    EXPECT_LE(static_cast<double>(summary.peak_bytes), 1.01 * static_cast<double>(plan.peak_bytes));
  }
}

TEST(CudaRecordings, ASearchWithThemFillsTheBand) {
  Recipe r = cnn_recipe();
  r.execution.cuda_graphs = CudaGraphs::kOn;
  r.execution.micro_batch.reset();
  r.batch.effective = 2000;
  r.optimizer.reference_batch = 2000;
  r.execution.memory.budget = *Budget::parse("256MiB");
  r.execution.memory.target_low = 0.8;
  r.execution.memory.target_high = 0.9;
  r.stop.updates = 4;
  Trainer trainer = Trainer::from_recipe(r, {.write_files = false});
  const BatchPlan plan = trainer.plan();
  const Summary summary = trainer.fit();
  EXPECT_TRUE(plan.cuda_graphs) << plan.cuda_graphs_why;
  EXPECT_EQ(plan.search.reason, SearchReason::kInBand);
  EXPECT_LE(summary.peak_bytes, plan.budget_bytes);
}

TEST(CudaRecordings, AForwardPassGivesTheSameOutput) {
  const auto device = open_device({.device = "cuda", .budget = *Budget::parse("1GiB")});
  const torch::Tensor weight = torch::randn({64, 64}, device->torch_device());
  const auto forward = [&](const Batch& batch) {
    const torch::NoGradGuard no_gradients;
    torch::Tensor x = batch.inputs;
    for (int i = 0; i < 20; ++i) x = x.mm(weight).tanh();
    return x;
  };
  const auto random = [&] { return torch::randn({8, 64}, device->torch_device()); };
  RecordedForward recorded(*device, CudaGraphs::kOn, forward);
  const Batch first{.inputs = random(), .samples = 8}, second{.inputs = random(), .samples = 8};
  const torch::Tensor expected = forward(second);
  EXPECT_FALSE(recorded.holds_for(first));
  ASSERT_TRUE(recorded.record(first)) << recorded.why_not();
  EXPECT_TRUE(recorded.replay({.inputs = second.inputs.clone(), .samples = 8}).equal(expected));
  EXPECT_FALSE(recorded.holds_for({.inputs = second.inputs.narrow(0, 0, 4), .samples = 4}));
}

}  // namespace
}  // namespace autotrain
