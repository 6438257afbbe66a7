#include "autotrain/sweep.h"

#include <torch/nn.h>

#include "support/support.h"

namespace autotrain {
namespace {

using test::expect_error;
using test::holds;

struct Net : torch::nn::Module {
  Net()
      : hidden(register_module("hidden", torch::nn::Linear(8, 32))),
        drop(register_module("drop", torch::nn::Dropout())) {}
  torch::Tensor forward(const torch::Tensor& x) {
    EXPECT_FALSE(is_training());
    EXPECT_FALSE(torch::GradMode::is_enabled());
    return drop->forward(hidden->forward(x));
  }
  torch::nn::Linear hidden;
  torch::nn::Dropout drop;
};

SweepOptions quick(std::vector<int64_t> batches) {
  return {.batches = std::move(batches),
          .rounds = 2,
          .max_seconds = 0.02,
          .roofline = false,
          .device = "cpu",
          .budget = *Budget::parse("64MiB"),
          .threads = 1};
}

torch::Tensor inputs(int64_t samples) {
  return torch::zeros({samples, 8});
}

TEST(ModuleSweep, MeasuresEveryBatchOnceByAscendingSize) {
  Net net;
  net.drop->eval();
  const SweepResult result = sweep(net, inputs, quick({4, 1, 4}));
  ASSERT_EQ(result.points.size(), 2u);
  EXPECT_EQ(result.points[0].batch, 1);
  EXPECT_EQ(result.points[1].batch, 4);
  for (const SweepPoint& point : result.points) {
    EXPECT_EQ(point.failure, "");
    EXPECT_GT(point.p50_seconds, 0);
    EXPECT_LE(point.p50_seconds, point.p99_seconds);
    EXPECT_TRUE(point.drift) << "of two rounds";
    EXPECT_GT(point.products_share, 0);
  }
  EXPECT_TRUE(result.knee);
  EXPECT_EQ(result.predicted_batch, 0) << "it was not asked for";
  EXPECT_FALSE(result.sentences.empty());
  EXPECT_TRUE(net.is_training()) << "as before";
  EXPECT_TRUE(net.hidden->is_training());
  EXPECT_FALSE(net.drop->is_training());
}

TEST(ModuleSweep, CountsOperationsAndWeightsForThePrediction) {
  Net net;
  SweepOptions options = quick({1, 2});
  options.roofline = true;
  const SweepResult result = sweep(net, inputs, options);
  EXPECT_EQ(result.flops_per_sample, 2 * 8 * 32);
  EXPECT_EQ(result.weight_bytes, 4 * (8 * 32 + 32));
  EXPECT_GT(result.predicted_batch, 0);
}

TEST(ModuleSweep, AFunctionIsEnough) {
  const torch::Tensor weights = torch::ones({8, 3});
  const SweepSubject code{
      .forward = [&](const Batch& batch) { return batch.inputs.matmul(weights); },
      .make_batch = [](int64_t samples) -> Batch { return {.inputs = inputs(samples), .samples = samples}; }};
  const SweepResult result = sweep(code, quick({2}));
  EXPECT_EQ(result.points.front().batch, 2);
  EXPECT_FALSE(result.knee) << "of one point";
}

TEST(ModuleSweep, ABatchThatMemoryRefusesIsAPointAndTheOthersGoOn) {
  Net net;
  const SweepResult result = sweep(net, inputs, quick({1, 4'000'000}));
  EXPECT_EQ(result.points[0].failure, "");
  EXPECT_TRUE(holds(result.points[1].failure, "batch 4000000: "));
  EXPECT_EQ(result.points[1].code, static_cast<int>(ExitCode::kDoesNotFit));
}

TEST(ModuleSweep, DoublesUntilMemoryEndsWhenNoBatchIsNamed) {
  Net net;
  SweepOptions options = quick({});
  options.rounds = 1;
  const auto wide = [](int64_t samples) {
    return samples > 2 ? torch::zeros({samples, 1 << 24}) : torch::zeros({samples, 8});
  };
  const SweepResult result = sweep(net, wide, options);
  ASSERT_GE(result.points.size(), 2u);
  EXPECT_EQ(result.points[1].batch, 2);
  EXPECT_LE(result.points.back().batch, 4);
}

TEST(ModuleSweep, MistakesAreNamed) {
  Net net;
  expect_error(ExitCode::kUsage, [] { sweep(SweepSubject{}, quick({1})); });
  expect_error(ExitCode::kUsage, [&] { sweep(net, inputs, quick({1, 0})); });
  const Error error = expect_error(ExitCode::kBadData, [&] {
    sweep(
        net,
        [](int64_t) {
          return torch::zeros({3, 8});
        },
        quick({2}));
  });
  EXPECT_TRUE(holds(error.problem(), "was asked for 2 samples"));
  EXPECT_THROW(sweep(
                   net,
                   [](int64_t n) {
                     return torch::zeros({n, 9});
                   },
                   quick({2})),
               c10::Error)
      << "what the module itself throws";
}

}  // namespace
}  // namespace autotrain
