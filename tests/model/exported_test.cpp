// An exported model as the rest of the program sees it.
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include "data/channels_last.h"
#include "device/cpu_meter.h"
#include "model/models.h"
#include "support/support.h"

namespace autotrain {
namespace {

std::shared_ptr<Network> small() {
  return make_model({"exported", {{"file", std::string(AUTOTRAIN_FIXTURES "/exported_small.autotrain")}}},
                    {{3, 32, 32}, 10, 0});
}

TEST(Exported, APredictionThatIsNeverDifferentiatedLeavesNothing) {
  const auto model = small();
  const torch::Tensor inputs = torch::randn({16, 3, 32, 32});
  CpuMeter meter;
  for (int i = 0; i < 3; ++i) {
    const torch::Tensor prediction = model->forward(inputs);
    EXPECT_TRUE(prediction.requires_grad());
    EXPECT_GT(meter.allocated_bytes(), static_cast<int64_t>(inputs.nbytes())) << "activations";
  }
  EXPECT_EQ(meter.allocated_bytes(), 0);
}

TEST(Exported, ALossThatRunsOutOfMemoryLeavesNothing) {
  const auto model = small();
  const torch::Tensor inputs = torch::randn({16, 3, 32, 32});
  CpuMeter meter;
  EXPECT_THROW(
      {
        const torch::Tensor prediction = model->forward(inputs);
        meter.set_limit(meter.reserved_bytes());
        torch::empty({64 << 20}).sum();
      },
      c10::OutOfMemoryError);
  meter.remove_limit();
  EXPECT_EQ(meter.allocated_bytes(), 0);
}

TEST(Exported, PassesMayOverlapAndOutliveTheirModel) {
  auto model = small();
  const torch::Tensor a = torch::randn({4, 3, 32, 32}), b = torch::randn({4, 3, 32, 32});
  const torch::Tensor weight = model->parameters()[0];
  torch::Tensor of_a = model->forward(a), of_b = model->forward(b);
  of_b.sum().backward();
  const torch::Tensor gradient_of_b = weight.grad().clone();
  of_a.sum().backward();
  weight.mutable_grad().reset();
  model->forward(b).sum().backward();
  EXPECT_TRUE(weight.grad().allclose(gradient_of_b, 1e-4, 1e-6));

  torch::Tensor last = model->forward(a);
  model.reset();
  EXPECT_NO_THROW(last.sum().backward());
  EXPECT_THROW(last.sum().backward(), c10::Error) << "once";
}

TEST(Exported, WithoutGradModeATrainingPassHoldsNothing) {
  const auto model = small();
  const torch::NoGradGuard no_gradients;
  const torch::Tensor inputs = torch::randn({16, 3, 32, 32});
  CpuMeter meter;
  const torch::Tensor prediction = model->forward(inputs);
  EXPECT_FALSE(prediction.requires_grad());
  EXPECT_EQ(meter.allocated_bytes(), static_cast<int64_t>(prediction.nbytes()));
}

TEST(Exported, WhatIsComputedAgainChangesNoBitAndKeepsLess) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    const auto whole = small(), again = small();
    if (!whole->computes_in(precision)) continue;
    const torch::Tensor inputs = torch::randn({16, 3, 32, 32});
    const RecomputedBytes bytes = again->recompute({inputs, {}, 16}, precision);
    EXPECT_LT(bytes.kept, bytes.before);
    EXPECT_GT(bytes.operators, 0);
    for (const int64_t samples : {16, 3}) {
      const torch::Tensor some = inputs.narrow(0, 0, samples).contiguous();
      std::vector<int64_t> held;
      for (const auto& model : {whole, again}) {
        CpuMeter meter;
        at::autocast::set_autocast_enabled(torch::kCPU, precision == Precision::kBf16);
        const torch::Tensor prediction = model->forward(some);
        at::autocast::set_autocast_enabled(torch::kCPU, false);
        held.push_back(meter.allocated_bytes());
        prediction.sum().backward();
      }
      EXPECT_LT(held[1], held[0]);
      for (size_t i = 0; i < whole->parameters().size(); ++i)
        EXPECT_TRUE(whole->parameters()[i].grad().equal(again->parameters()[i].grad())) << i;
      for (size_t i = 0; i < whole->buffers().size(); ++i)
        EXPECT_TRUE(whole->buffers()[i].equal(again->buffers()[i])) << "statistics are kept up once";
    }
  }
}

TEST(Exported, SaysWhatItCanBeTrainedIn) {
  const auto model = small();
  EXPECT_TRUE(model->computes_in(Precision::kFp32));
  EXPECT_TRUE(model->computes_in(Precision::kTf32));
  EXPECT_FALSE(model->computes_in(Precision::kBf16));
  EXPECT_FALSE(model->fingerprint().empty());
  EXPECT_EQ(model->fingerprint(), small()->fingerprint());
}

}  // namespace
}  // namespace autotrain
