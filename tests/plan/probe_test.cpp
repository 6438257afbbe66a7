#include "plan/probe.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "autotrain/random.h"
#include "base/units.h"
#include "plan/plan_json.h"
#include "support/copying_device.h"
#include "support/counted.h"
#include "support/ragged.h"
#include "support/run_workbench.h"
#include "support/snapshot.h"
#include "support/support.h"

namespace autotrain {
namespace {

using test::everything;
using test::expect_equal;
using test::SmallNet;

const ExtendTrial kConfirm = [](const ProbeRecord&) { return true; };
const ExtendTrial kOnce = [](const ProbeRecord&) { return false; };

class ProbeTrace : public testing::TestWithParam<SmallNet::Middle> {};

TEST_P(ProbeTrace, NothingIsLeftOfATrialNotEvenOfARefusedOne) {
  const auto data = test::small_data(8192), validation = test::small_data(64, 9);
  Recipe recipe = test::small_recipe();
  recipe.execution.precision = Precision::kFp16;  // with a live scaler
  recipe.execution.memory.budget = *Budget::parse("24MiB");
  const auto bench = test::make_workbench(recipe, test::small_task(GetParam()), data, &validation);
  const auto before = everything(*bench);
  Probe probe(*bench, 0.9);
  EXPECT_TRUE(probe.run({8, 32, 8}, kConfirm).confirmed);
  expect_equal(everything(*bench), before);
  const int64_t allocated = bench->device->memory().allocated_bytes();
  for (const int64_t spare : {int64_t{0}, 64 * kKiB}) {  // refused at once, and in the middle
    bench->device->memory().empty_cache();
    bench->device->memory().set_limit(bench->device->memory().reserved_bytes() + spare);
    EXPECT_EQ(probe.run({4096, 8192, 8}, kOnce).outcome, ProbeOutcome::kRefused);
  }
  bench->device->memory().set_limit(bench->device->budget_bytes());
  expect_equal(everything(*bench), before);
  EXPECT_EQ(bench->device->memory().allocated_bytes(), allocated) << "freed to the byte";
  for (const NamedTensor& p : bench->optimizer->parameters()) EXPECT_FALSE(p.tensor.grad().defined());
}

INSTANTIATE_TEST_SUITE_P(Nets, ProbeTrace,
                         testing::Values(SmallNet::Middle::kNothing, SmallNet::Middle::kBatchNorm,
                                         SmallNet::Middle::kDropout));

TEST(Probe, RunsTheWindowThatTheRunWillHave) {
  const auto sizes = [](int64_t window, int64_t micro_batch) {
    std::vector<int64_t> all;
    for (const Piece& piece : trial_pieces(consecutive(0, window), micro_batch))
      all.push_back(piece.samples());
    return all;
  };
  EXPECT_EQ(sizes(100, 100), (std::vector<int64_t>{100}));
  EXPECT_EQ(sizes(150, 100), (std::vector<int64_t>{100, 50}));
  EXPECT_EQ(sizes(200, 100), (std::vector<int64_t>{100, 100}));
  EXPECT_EQ(sizes(1000, 100), (std::vector<int64_t>{100, 100}));
  EXPECT_EQ(sizes(1001, 100), (std::vector<int64_t>{100, 100, 1}));
}

TEST(Probe, SeesTheMemoryOfGradientsBesideTheSecondMicroBatch) {
  const auto data = test::small_data(512);
  const auto bench =
      test::make_workbench(test::small_recipe(), test::small_task(SmallNet::Middle::kNothing, 1 << 18), data);
  Probe probe(*bench, 0.9);
  const ProbeRecord one = probe.run({8, 8, 0}, kOnce), two = probe.run({8, 16, 0}, kOnce);
  const int64_t gradients = 4 * ((6 + 1) * (1 << 18) + 4 * (1 << 18));
  // The second backward holds the accumulated gradients beside the ones it makes for the first layer.
  EXPECT_GT(two.allocated_bytes, one.allocated_bytes + gradients / 4);
}

TEST(Probe, CountsWhatIsPreparedAhead) {
  const auto data = test::small_data(8192);
  Recipe recipe = test::small_recipe();
  const auto peak = [&](int64_t prefetch) {
    recipe.execution.loader.prefetch = prefetch;
    const auto bench = test::make_workbench(recipe, test::small_task(), data);
    return Probe(*bench, 0.9).run({4096, 4096, 0}, kOnce).allocated_bytes;
  };
  const int64_t batch = 4096 * (6 * 4 + 8);
  EXPECT_EQ(peak(4) - peak(0), 4 * batch);
}

std::unique_ptr<Workbench> copying_workbench(const Recipe& recipe, std::unique_ptr<Task> task,
                                             const Dataset& train, const Dataset* validation = nullptr,
                                             int64_t ahead = 1) {
  RunData data;
  data.train = &train;
  data.validation = validation;
  auto device = std::make_unique<test::CopyingDevice>(open_run_device(recipe), ahead);
  return assemble(recipe, {std::move(device), std::move(data), std::move(task)});
}

TEST(Probe, WhereBatchesCostNothingOfTheBudgetEachPieceIsMadeOnce) {
  const auto train = test::small_data(512), validation = test::small_data(40, 9);
  const test::Counted data(train), evaluated(validation);
  const auto bench = copying_workbench(test::small_recipe(), test::small_task(), data, &evaluated);
  const auto before = everything(*bench);
  const auto asked_for = [&](const TrialShape& shape) {
    const int64_t samples = data.samples(), of_evaluation = evaluated.samples();
    Probe probe(*bench, 0.9);
    EXPECT_TRUE(probe.run(shape, kConfirm).confirmed);
    return std::pair(data.samples() - samples, evaluated.samples() - of_evaluation);
  };
  EXPECT_EQ(asked_for({.micro_batch = 8, .window_samples = 20, .evaluation_micro_batch = 0}),
            std::pair(20L, 0L));
  EXPECT_EQ(asked_for({.micro_batch = 8, .window_samples = 100, .evaluation_micro_batch = 16}),
            std::pair(20L, 24L));  // twice 8, and 4; 16, and 8 that are left over of 40
  expect_equal(everything(*bench), before);
  Probe probe(*bench, 0.9);
  const int64_t samples = data.samples();
  for (const int64_t size : {4, 32, 16}) probe.run({size, size, 0}, kConfirm);
  EXPECT_EQ(data.samples() - samples, 32) << "trials have each other's samples";
}

TEST(Probe, TrialsWithBatchesOfTheirOwnComeToWhatTheLoadersCome) {
  const auto train = test::small_data(512), validation = test::small_data(40, 9);
  Recipe recipe = test::small_recipe();
  const auto own = copying_workbench(recipe, test::small_task(), train, &validation, /*ahead=*/0);
  const auto loaders = test::make_workbench(recipe, test::small_task(), train, &validation);
  const ProbeRecord a = Probe(*own, 0.9).run({8, 20, 8}, kConfirm);
  const ProbeRecord b = Probe(*loaders, 0.9).run({8, 20, 8}, kConfirm);
  EXPECT_EQ(a.samples, b.samples);
  EXPECT_EQ(a.weight, b.weight);
  EXPECT_EQ(a.confirmed, b.confirmed);
}

TEST(Probe, KeepsTheBatchBesideTheOneThatIsWorkedOnWhereADeviceCopiesAhead) {
  const auto train = test::small_data(8192);
  const auto peak = [&](int64_t ahead, int64_t window, bool on_device) {
    const test::Counted data(train, on_device);
    const auto bench =
        copying_workbench(test::small_recipe(), test::small_task(), data, /*validation=*/nullptr, ahead);
    return Probe(*bench, 0.9).run({2048, window, 0}, kOnce).allocated_bytes;
  };
  const int64_t batch = 2048 * (6 * 4 + 8);
  for (const int64_t window : {2048, 4096, 8192}) {
    EXPECT_EQ(peak(1, window, false) - peak(0, window, false), batch) << window;
    EXPECT_EQ(peak(1, window, true), peak(0, window, true)) << "gathered where they are used: " << window;
  }
}

// Each sample takes a thread some time at least.
class Slow final : public Dataset {
 public:
  static constexpr double kSeconds = 1e-3;
  explicit Slow(const Dataset& data) : data_(data) {}
  int64_t size() const override { return data_.size(); }
  DatasetInfo info() const override { return data_.info(); }
  Batch get(c10::ArrayRef<int64_t> indices, const SampleRandom& random) const override {
    const double seconds = kSeconds * static_cast<double>(indices.size());
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    return data_.get(indices, random);
  }

 private:
  const Dataset& data_;
};

TEST(Probe, MeasuresPassesAndLoadingApart) {
  const auto fast = test::small_data(512);
  const Slow data(fast);
  for (const bool copying : {false, true}) {
    const auto bench = copying ? copying_workbench(test::small_recipe(), test::small_task(), data)
                               : test::make_workbench(test::small_recipe(), test::small_task(), data);
    const ProbeRecord record = Probe(*bench, 0.9).run({8, 20, 0}, kConfirm);
    EXPECT_GE(record.load_seconds_per_sample, Slow::kSeconds);
    EXPECT_GE(record.pass_samples_per_second, record.samples_per_second);
    if (copying) {
      EXPECT_EQ(record.pass_samples_per_second, record.samples_per_second);
    }
    const ProbeRecord read = probe_from_json(probe_to_json(record));
    EXPECT_EQ(read.load_seconds_per_sample, record.load_seconds_per_sample);
    EXPECT_EQ(read.pass_samples_per_second, record.pass_samples_per_second);
    auto older = probe_to_json(record);
    older.erase("load_seconds_per_sample");
    older.erase("pass_samples_per_second");
    EXPECT_EQ(probe_from_json(older).load_seconds_per_sample, 0);
    EXPECT_EQ(probe_from_json(older).samples_per_second, record.samples_per_second);
  }
}

// Throws what a program error looks like, or what memory trouble looks like, above a size.
class Failing final : public Task {
 public:
  explicit Failing(std::function<void()> failure) : failure_(std::move(failure)) {}
  torch::nn::Module& module() override { return inner_->module(); }
  LossTerms loss(const Batch& batch) override {
    if (batch.samples > 4) failure_();
    return inner_->loss(batch);
  }

 private:
  std::unique_ptr<Task> inner_ = test::small_task();
  std::function<void()> failure_;
};

TEST(Probe, ErrorsAreErrorsAndNeverDoesNotFit) {
  const auto data = test::small_data(512);
  const auto outcome = [&](std::function<void()> failure) {
    const auto bench =
        test::make_workbench(test::small_recipe(), std::make_unique<Failing>(std::move(failure)), data);
    return Probe(*bench, 0.9).run({8, 32, 0}, kOnce).outcome;
  };
  EXPECT_THROW(outcome([] { throw std::runtime_error("shapes cannot be multiplied"); }), std::runtime_error);
  EXPECT_EQ(outcome([] { throw std::runtime_error("could not create a primitive"); }),
            ProbeOutcome::kLibrary);
  EXPECT_EQ(outcome([] { throw std::runtime_error("CUDA error: invalid configuration argument"); }),
            ProbeOutcome::kIndexLimit);
  EXPECT_EQ(outcome([] { throw std::bad_alloc(); }), ProbeOutcome::kRefused);
}

TEST(Probe, AnEvaluationBatchThatIsPreparedAheadAndDoesNotFitIsSeen) {
  const auto data = test::small_data(64), validation = test::small_data(40000, 9);
  Recipe recipe = test::small_recipe();
  recipe.execution.memory.budget = *Budget::parse("1MiB");  // one batch of 0.6 MiB, not two
  const auto bench =
      test::make_workbench(recipe, test::small_task(SmallNet::Middle::kNothing, 1), data, &validation);
  const ProbeRecord record = Probe(*bench, 1).run({4, 4, 20000}, kConfirm);
  EXPECT_EQ(record.outcome, ProbeOutcome::kRefused);
  EXPECT_FALSE(record.confirmed);
}

// Notes the shapes of the batches it is given.
class Noting final : public Task {
 public:
  Noting(std::unique_ptr<Task> task, std::vector<std::vector<int64_t>>& shapes)
      : task_(std::move(task)), shapes_(shapes) {}
  torch::nn::Module& module() override { return task_->module(); }
  LossTerms loss(const Batch& batch) override {
    shapes_.push_back(batch.inputs.sizes().vec());
    return task_->loss(batch);
  }
  EvaluationTerms evaluate(const Batch& batch) override { return {loss(batch), {}}; }

 private:
  std::unique_ptr<Task> task_;
  std::vector<std::vector<int64_t>>& shapes_;
};

// Draws a random number in each pass, and holds as many bytes more as `bytes` says for the n-th one.
class Drawing final : public Task {
 public:
  explicit Drawing(std::function<int64_t(int64_t pass)> bytes) : bytes_(std::move(bytes)) {}
  torch::nn::Module& module() override { return inner_->module(); }
  LossTerms loss(const Batch& batch) override {
    at::rand({1}, cpu_generator());
    const torch::Tensor held = at::empty({bytes_(++passes)}, at::kByte);
    return inner_->loss(batch);
  }

  int64_t passes = 0;

 private:
  std::unique_ptr<Task> inner_ = test::small_task();
  std::function<int64_t(int64_t pass)> bytes_;
};

TEST(Probe, WhereDrawsDecideWhatAPassTakesSeveralAreRunAndTheLargestCounts) {
  const auto data = test::small_data(512);
  const auto run = [&](std::function<int64_t(int64_t)> bytes) {
    auto task = std::make_unique<Drawing>(std::move(bytes));
    const Drawing& drawing = *task;
    const auto bench = test::make_workbench(test::small_recipe(), std::move(task), data);
    const ProbeRecord record = Probe(*bench, 0.9).run({8, 8, 0}, kConfirm);
    EXPECT_TRUE(record.confirmed);
    return std::pair(drawing.passes, record.allocated_bytes);
  };
  const auto [passes, most] = run([](int64_t pass) { return (pass == 7 ? 20 : pass) * kMiB; });
  EXPECT_EQ(passes, 10) << "two updates, and eight with other random numbers";
  EXPECT_GE(most, 20 * kMiB);
  EXPECT_EQ(run([](int64_t) { return kMiB; }).first, 2) << "whatever is drawn takes the same";
  EXPECT_EQ(run([](int64_t pass) { return (pass == 1 ? 2 : 1) * kMiB; }).first, 5)
      << "only the first differs";
}

TEST(Probe, RunsTheSamplesThatCostMostAndThenTheFirstWindowOfTheStream) {
  // Long enough that the two peaks differ by more than what the allocator rounds to.
  std::vector<int64_t> lengths(200, 5);
  lengths[150] = 900, lengths[30] = 600, lengths[31] = 20, lengths[32] = 10;
  const test::Ragged data(lengths), validation({3, 7, 2, 30, 1});
  std::vector<std::vector<int64_t>> shapes;
  const auto bench = test::make_workbench(
      test::small_recipe(), std::make_unique<Noting>(test::ragged_task(900, 64), shapes), data, &validation);
  const auto before = everything(*bench);
  const ProbeRecord record = Probe(*bench, 0.9).run({2, 7, 2}, kConfirm);
  expect_equal(everything(*bench), before);
  using Shapes = std::vector<std::vector<int64_t>>;
  const Shapes worst = {{2, 900}, {2, 600}, {1, 10}}, typical = {{2, 5}, {2, 5}, {1, 5}},
               evaluation = {{2, 30}, {1, 1}};
  Shapes expected;
  for (const Shapes& part : {worst, worst, evaluation, typical, worst}) {
    expected.insert(expected.end(), part.begin(), part.end());
  }
  EXPECT_EQ(shapes, expected);
  EXPECT_TRUE(record.confirmed);
  EXPECT_GT(record.typical_bytes, 0);
  EXPECT_LT(record.typical_bytes, record.peak_bytes);
  EXPECT_EQ(Probe(*bench, 0.9).run({2, 7, 2}, kOnce).typical_bytes, 0);
}

}  // namespace
}  // namespace autotrain
