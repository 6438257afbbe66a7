#include <torch/csrc/autograd/autograd.h>

#include "kinds/kind.h"

namespace kinds::meta {
namespace {

// program: weights from which one step learns a task (MAML); each sample is a task of its own
struct Meta final : PartsTask {
  static torch::Tensor line(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias) {
    return x * weight + bias;
  }
  // Several backward passes for each micro-batch: a task's outer loss goes through its inner step.
  bool makes_passes() const override { return true; }
  LossTerms passes(Passes& passes) override {
    torch::Tensor sum = torch::zeros({}), weight = torch::zeros({});
    for (const Batch& batch : passes.batches()) {
      for (int64_t i = 0; i < batch.samples; ++i) {
        const torch::Tensor outer = after_one_step(batch.inputs[i]);
        passes.backward(outer);
        sum += outer.detach();
      }
      weight += batch.samples;
    }
    return {sum, weight};
  }
  // [4]: slope and offset of a line, and two places on it: one to learn from, one to be asked about.
  torch::Tensor after_one_step(const torch::Tensor& task) {
    const auto parameters = start->parameters();
    const auto wanted = [&](int64_t place) { return task[place] * task[0] + task[1]; };
    const torch::Tensor inner = (line(task[2], parameters[0], parameters[1]) - wanted(2)).square().sum();
    const auto slopes = torch::autograd::grad({inner}, parameters, {}, true, /*create_graph=*/true);
    return (line(task[3], parameters[0] - 0.1 * slopes[0], parameters[1] - 0.1 * slopes[1]) - wanted(3))
        .square()
        .sum();
  }
  LossTerms loss(const Batch& batch) override {
    torch::Tensor sum = torch::zeros({});
    for (int64_t i = 0; i < batch.samples; ++i) sum = sum + after_one_step(batch.inputs[i]);
    return {sum, count(batch)};
  }

  Layers start = add("start", layers({1, 1}));
};

Program make() {
  return {.task = std::make_unique<Meta>(), .data = points()};
}

// by hand
void by_hand(Program& program) {
  auto& task = dynamic_cast<Meta&>(*program.task);
  torch::optim::Adam adam(task.module().parameters(), 0.01);
  train(program, adam, [&](const Batch& batch) { return task.loss(batch).sum / kBatch; });
}

const Register kind({.name = "meta-learning", .file = __FILE__, .make = make, .by_hand = by_hand});

}  // namespace
}  // namespace kinds::meta
