// What a backward pass needs lies in main memory meanwhile. The device is a CPU here, and what counts as main
// memory is the heap, whose bytes no meter of the device counts.
#include "model/moved_tensors.h"

#include <gtest/gtest.h>

#include <cstring>

#include "device/cpu_meter.h"
#include "model/models.h"
#include "support/support.h"

namespace autotrain {
namespace {

constexpr int64_t kAnySize = 1;

class CopyingMover final : public HostMover {
 public:
  torch::Device device() const override { return torch::kCPU; }

  torch::Tensor to_host(const torch::Tensor& bytes) override {
    ++moved;
    auto* const memory = new char[static_cast<size_t>(bytes.numel())];
    std::memcpy(memory, bytes.const_data_ptr(), static_cast<size_t>(bytes.numel()));
    return torch::from_blob(
        memory, bytes.sizes(), [](void* held) { delete[] static_cast<char*>(held); }, torch::kByte);
  }

  // Before it is awaited, there is nothing of use.
  Arrival to_device(const torch::Tensor& host) override {
    ++fetched;
    torch::Tensor bytes = torch::full(host.sizes(), 0xff, torch::kByte);
    return {bytes, [this, bytes, host]() mutable {
              ++awaited;
              bytes.copy_(host);
            }};
  }

  int moved = 0, fetched = 0, awaited = 0;
};

std::vector<torch::Tensor> gradients_of(Network& model, const Batch& batch,
                                        const std::shared_ptr<HostMover>& mover) {
  model.zero_grad();
  torch::manual_seed(3);
  torch::Tensor prediction;
  {
    const OffloadScope offload(mover, model, batch, kAnySize);
    prediction = model.forward(batch.inputs);
  }
  prediction.square().sum().backward();
  std::vector<torch::Tensor> gradients;
  for (const torch::Tensor& parameter : model.parameters())
    gradients.push_back(parameter.grad().defined() ? parameter.grad().clone() : torch::Tensor());
  return gradients;
}

struct Case {
  Choice model;
  SampleShape shape;
  torch::Tensor inputs;
};

std::vector<Case> cases() {
  const torch::Tensor images = torch::randn({6, 3, 32, 32}), tokens = torch::randint(0, 50, {4, 24});
  const SampleShape of_images{{3, 32, 32}, 10, 0}, of_tokens{{24}, 50, 50};
  return {{{"mlp", {{"depth", int64_t{3}}, {"width", int64_t{32}}, {"dropout", 0.3}}}, of_images, images},
          {{"cnn", {{"width", int64_t{8}}}}, of_images, images},
          {{"resnet18", {{"stem", std::string("small")}}}, of_images, images},
          {{"transformer",
            {{"layers", int64_t{2}}, {"width", int64_t{32}}, {"heads", int64_t{2}}, {"dropout", 0.2}}},
           of_tokens,
           tokens},
          {{"exported", {{"file", std::string(AUTOTRAIN_FIXTURES "/exported_small.autotrain")}}},
           of_images,
           images}};
}

TEST(MovedTensors, GradientsHaveTheSameBits) {
  for (const Case& each : cases()) {
    const auto model = make_model(each.model, each.shape);
    model->train();
    const Batch batch{each.inputs, {}, each.inputs.size(0)};
    const auto kept = gradients_of(*model, batch, nullptr);
    const auto mover = std::make_shared<CopyingMover>();
    const auto moved = gradients_of(*model, batch, mover);
    EXPECT_GT(mover->moved, 0) << each.model.name;
    EXPECT_GT(mover->awaited, 0) << each.model.name << ": what nobody else held came back";
    for (size_t i = 0; i < kept.size(); ++i) {
      ASSERT_EQ(kept[i].defined(), moved[i].defined());
      EXPECT_TRUE(!kept[i].defined() || torch::equal(kept[i], moved[i])) << each.model.name << " " << i;
    }
  }
}

TEST(MovedTensors, TheDevicesMemoryIsFreeMeanwhile) {
  for (const Case& each : cases()) {
    const auto model = make_model(each.model, each.shape);
    model->train();
    const Batch batch{each.inputs, {}, each.inputs.size(0)};
    const auto held_between = [&](const std::shared_ptr<HostMover>& mover) {
      CpuMeter meter;
      const OffloadScope offload(mover, *model, batch, kAnySize);
      const torch::Tensor sum = model->forward(batch.inputs).sum();
      return meter.allocated_bytes();
    };
    EXPECT_LT(held_between(std::make_shared<CopyingMover>()), held_between(nullptr) / 2) << each.model.name;
  }
}

// A module that keeps what it is told to.
struct Plain : torch::nn::Module {
  Plain() { weight = register_parameter("weight", torch::randn({16, 16})); }
  torch::Tensor weight;
};

TEST(MovedTensors, MemoryThatIsSharedMovesOnceAndParametersAndInputsStay) {
  const Plain module;
  const Batch batch{torch::randn({8, 16}), {}, 8};
  const auto mover = std::make_shared<CopyingMover>();
  torch::Tensor sum;
  {
    const OffloadScope offload(mover, module, batch, kAnySize);
    const torch::Tensor x = batch.inputs.matmul(module.weight).sigmoid();  // which keeps its result
    const torch::Tensor y = x.matmul(module.weight.t());                   // and this its arguments
    sum = (x.t().slice(0, 3, 9) * 2).square().sum() + y.sum();
  }
  EXPECT_EQ(mover->moved, 2) << "x, and what is squared";
  sum.backward();
  EXPECT_EQ(mover->fetched, 2);
  EXPECT_EQ(mover->awaited, 2);
}

TEST(MovedTensors, WhatSomebodyHoldsIsNotBroughtBack) {
  const Plain module;
  const auto mover = std::make_shared<CopyingMover>();
  torch::Tensor held, sum;
  {
    const OffloadScope offload(mover, module, {torch::randn({1}), {}, 1}, kAnySize);
    held = module.weight.exp();
    sum = held.sum();
  }
  sum.backward();
  EXPECT_EQ(mover->moved, 1);
  EXPECT_EQ(mover->fetched, 0);
  EXPECT_TRUE(torch::equal(module.weight.grad(), held));
}

// Views of complex numbers are conjugate, and those of their parts negative, by a mark alone.
TEST(MovedTensors, MarksOfViewsAreNotLost) {
  const Plain module;
  const auto gradient = [&](const std::shared_ptr<HostMover>& mover) {
    module.weight.mutable_grad().reset();
    torch::Tensor sum;
    {
      const OffloadScope offload(mover, module, {torch::randn({1}), {}, 1}, kAnySize);
      const torch::Tensor x = at::complex(module.weight.exp(), module.weight.sin());
      sum = at::real(x.conj() * x.square()).sum() + (at::imag(x.conj()) * module.weight.cos()).sum();
    }
    sum.backward();
    return module.weight.grad().clone();
  };
  const auto mover = std::make_shared<CopyingMover>();
  EXPECT_TRUE(torch::equal(gradient(mover), gradient(nullptr)));
  EXPECT_GT(mover->moved, 0);
}

TEST(MovedTensors, GoBackwardTwice) {
  const Plain module;
  const auto mover = std::make_shared<CopyingMover>();
  torch::Tensor sum;
  {
    const OffloadScope offload(mover, module, {torch::randn({1}), {}, 1}, kAnySize);
    sum = module.weight.exp().square().sum();
  }
  sum.backward({}, /*retain_graph=*/true);
  const torch::Tensor once = module.weight.grad().clone();
  sum.backward();
  EXPECT_TRUE(torch::equal(module.weight.grad(), once + once));
}

TEST(MovedTensors, WhatIsChangedInPlaceIsRefused) {
  const Plain module;
  const auto mover = std::make_shared<CopyingMover>();
  torch::Tensor x, sum;
  {
    const OffloadScope offload(mover, module, {torch::randn({1}), {}, 1}, kAnySize);
    x = module.weight.exp();
    sum = x.sum();
  }
  {
    const torch::NoGradGuard no_gradients;
    x.add_(1);
  }
  const Error error = test::expect_error(ExitCode::kBrokenContract, [&] { sum.backward(); });
  EXPECT_EQ(error.where(), "execution.offload");
}

TEST(MovedTensors, ACpuHasNoMover) {
  EXPECT_EQ(host_mover(torch::kCPU), nullptr);
}

}  // namespace
}  // namespace autotrain
