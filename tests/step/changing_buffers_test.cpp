#include "step/changing_buffers.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include "autotrain/trainer.h"
#include "base/units.h"
#include "device/cpu_meter.h"
#include "support/small_run.h"

namespace autotrain {
namespace {

constexpr int64_t kNumbers = 3 << 18;  // 3 MiB

// A module with a large buffer, and what its forward does to it.
struct WithBuffer : torch::nn::Module {
  using Act = std::function<void(torch::Tensor& buffer)>;
  explicit WithBuffer(Act act_on, int64_t numbers = kNumbers) : act(std::move(act_on)) {
    linear = register_module("linear", torch::nn::Linear(6, 4));
    buffer = register_buffer("buffer", torch::arange(numbers, torch::kFloat32));
    counter = register_buffer("counter", torch::zeros({}, torch::kInt64));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    counter += 1;
    act(buffer);
    return linear->forward(x) + 0 * buffer[1];
  }
  Act act;
  torch::nn::Linear linear{nullptr};
  torch::Tensor buffer, counter;
};

struct Outcome {
  bool back = false;  // the buffers are what they were
  int64_t copied_bytes = 0;
};

// Two windows of one forward pass each, of which `restored` is put back.
Outcome windows(WithBuffer::Act act, int restored) {
  CpuMeter meter;
  WithBuffer net(std::move(act));
  ChangingBuffers buffers(net);
  torch::Tensor before;
  Outcome outcome;
  for (int window = 0; window < 2; ++window) {
    before = net.buffer.clone();
    const int64_t counted = net.counter.item<int64_t>();
    buffers.save();
    {
      const ChangingBuffers::Watch watch(buffers);
      const torch::NoGradGuard no_gradients;
      net.forward(torch::ones({2, 6}));
    }
    buffers.rethrow_failure();
    if (window != restored) continue;
    buffers.restore();
    outcome.back = torch::equal(net.buffer, before) && net.counter.item<int64_t>() == counted;
  }
  before.reset();
  outcome.copied_bytes =
      meter.allocated_bytes() - static_cast<int64_t>(net.buffer.nbytes() + net.linear->weight.nbytes());
  return outcome;
}

TEST(ChangingBuffers, ALargeConstantIsNeverCopied) {
  const Outcome outcome = windows([](torch::Tensor&) {}, 0);
  EXPECT_TRUE(outcome.back);
  EXPECT_LT(outcome.copied_bytes, kMiB / 2);
}

TEST(ChangingBuffers, ALargeBufferIsPutBackHoweverAnOperationWritesToIt) {
  const std::vector<WithBuffer::Act> ways = {
      [](torch::Tensor& b) { b.mul_(2); },
      [](torch::Tensor& b) { b.slice(0, 10, 20).copy_(torch::ones({10})); },  // a queue
      [](torch::Tensor& b) {
        b.view({-1, 4}).select(1, 2).zero_();
      },
      [](torch::Tensor& b) { at::add_out(b, b, b); },
      [](torch::Tensor& b) { at::_foreach_add_({b}, 1); },
      [](torch::Tensor& b) {
        b.index_put_({torch::tensor({5, 7})}, torch::tensor({1.f, 2.f}));
      },
      [](torch::Tensor& b) {  // as the interpreter of TorchScript does, with another's operand below
        std::vector<c10::IValue> stack = {torch::ones({2}), b, torch::full({}, 2.0f)};
        c10::Dispatcher::singleton().findSchemaOrThrow("aten::mul_", "Tensor").callBoxed(&stack);
      },
      [](torch::Tensor& b) {  // writes its statistics without saying so
        at::batch_norm(torch::ones({2, kNumbers}), {}, {}, b, b, true, 0.5, 1e-5, false);
      }};
  for (size_t i = 0; i < ways.size(); ++i) {
    for (const int window : {0, 1}) {
      const Outcome outcome = windows(ways[i], window);
      EXPECT_TRUE(outcome.back) << "way " << i << ", window " << window;
      EXPECT_GE(outcome.copied_bytes, kNumbers * 4) << i;
    }
  }
}

TEST(ChangingBuffers, AWriteThatNoOperationMakesIsPutBackFromTheSecondWindowOn) {
  const auto by_pointer = [](torch::Tensor& b) {
    b.mutable_data_ptr<float>()[3] += 1;
    b.unsafeGetTensorImpl()->bump_version();
  };
  EXPECT_TRUE(windows(by_pointer, 1).back);
}

TEST(ChangingBuffers, MemoryThatRunsOutOverACopyIsAnErrorOfTheForwardPass) {
  WithBuffer net([](torch::Tensor& b) { b.mul_(2); });
  CpuMeter meter;
  ChangingBuffers buffers(net);
  buffers.save();
  meter.set_limit(kMiB);
  {
    const ChangingBuffers::Watch watch(buffers);
    const torch::NoGradGuard no_gradients;
    net.forward(torch::ones({2, 6}));
  }
  EXPECT_THROW(buffers.rethrow_failure(), c10::OutOfMemoryError);
  EXPECT_NO_THROW(buffers.rethrow_failure()) << "it is told once";
}

TEST(ChangingBuffers, AModelOfOneLargeConstantNeedsNoRoomForItTwice) {
  const auto net = std::make_shared<WithBuffer>([](torch::Tensor&) {}, 12 << 18);  // 12 MiB
  const auto data = test::small_data(1000);
  Recipe recipe = test::small_recipe();
  recipe.batch.effective = 100;
  recipe.stop = {};
  recipe.stop.updates = 3;
  recipe.execution.memory.budget = *Budget::parse("10MiB");
  Trainer trainer(recipe, supervised(net, cross_entropy()), data, {.write_files = false});
  EXPECT_EQ(trainer.fit().updates, 3);
  EXPECT_EQ(net->counter.item<int64_t>(), 3) << "trials leave no trace in buffers";
}

TEST(ChangingBuffers, TellThatOneIsNoLongerFinite) {
  torch::nn::Module module;
  torch::Tensor statistics = module.register_buffer("statistics", torch::ones({3}));
  module.register_buffer("mask", torch::full({3}, -INFINITY));
  ChangingBuffers buffers(module);
  buffers.save();
  EXPECT_EQ(buffers.nought().item<double>(), 0) << "the mask was never finite";
  statistics[1] = std::nan("");
  EXPECT_TRUE(std::isnan(buffers.nought().item<double>()));
  EXPECT_EQ(buffers.first_not_finite(), "statistics");
  statistics[1] = INFINITY;
  EXPECT_TRUE(std::isnan(buffers.nought().item<double>()));
  EXPECT_EQ(buffers.first_not_finite(), "statistics");
  buffers.restore();
  EXPECT_EQ(buffers.nought().item<double>(), 0);
  for (const torch::Tensor& masked : {statistics[1], statistics}) {
    masked.fill_(-INFINITY);
    EXPECT_EQ(buffers.nought().item<double>(), 0) << "a mask that is set later";
    EXPECT_EQ(buffers.first_not_finite(), "");
  }
}

TEST(ChangingBuffers, WhatIsGivenOtherMemoryGetsItsFormerBack) {
  struct Pair : torch::nn::Module {
    torch::Tensor weight = register_parameter("weight", torch::rand({6, 6}));
    torch::Tensor other = register_parameter("other", torch::rand({6, 6}));
  };
  const std::vector<std::function<void(Pair&)>> ways = {
      [](Pair& net) { net.weight.set_data(net.weight.detach() * 2); },
      [](Pair& net) { net.weight.set_(net.weight.detach() * 2); },
      [](Pair& net) {
        net.weight.mul_(2);
        net.weight.set_data(torch::ones_like(net.weight));
        net.weight.mul_(2);
      },
      [](Pair& net) {  // as networks do that are exchanged
        const torch::Tensor one = net.weight.detach(), other = net.other.detach();
        net.weight.set_data(other), net.other.set_data(one);
        net.other.mul_(2);
      }};
  for (size_t way = 0; way < ways.size(); ++way) {
    Pair net;
    ChangingBuffers buffers(net);
    for (int window = 0; window < 3; ++window) {
      const torch::Tensor before = net.weight.detach().clone(), other = net.other.detach().clone();
      const void* const memory = net.weight.const_data_ptr();
      const torch::NoGradGuard no_gradients;
      buffers.save();
      EXPECT_FALSE(buffers.moved());
      {
        const ChangingBuffers::Watch watch(buffers, /*always=*/true);
        ways[way](net);
      }
      EXPECT_TRUE(buffers.moved()) << way;
      buffers.note_changed_parameters();
      if (window == 1) buffers.restore_unless(torch::zeros({}, torch::kBool));
      buffers.restore();
      buffers.settle();
      EXPECT_TRUE(torch::equal(net.weight, before)) << way << " window " << window;
      EXPECT_TRUE(torch::equal(net.other, other)) << way << " window " << window;
      EXPECT_EQ(net.weight.const_data_ptr(), memory) << way;
    }
  }
}

TEST(ChangingBuffers, TellWhatWasWrittenToWhileNobodyWatched) {
  WithBuffer net([](torch::Tensor&) {});
  ChangingBuffers buffers(net);
  buffers.save();
  EXPECT_FALSE(buffers.changed_for_good());
  EXPECT_TRUE(buffers.may_be_first_written());
  net.buffer.mul_(2);
  EXPECT_TRUE(buffers.changed_for_good());
  EXPECT_EQ(buffers.first_unwatched(), "buffer");
  buffers.save();
  EXPECT_FALSE(buffers.may_be_first_written());
  net.buffer.mul_(2);
  EXPECT_FALSE(buffers.changed_for_good()) << "it is copied from now on";
  const torch::NoGradGuard no_gradients;
  net.linear->weight.set_data(torch::ones_like(net.linear->weight));
  EXPECT_FALSE(buffers.changed_for_good()) << "its former memory is as it was";
  net.linear->bias.zero_();
  EXPECT_EQ(buffers.first_unwatched(), "linear.bias");
}

}  // namespace
}  // namespace autotrain
