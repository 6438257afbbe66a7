#include <torch/csrc/autograd/autograd.h>

#include "kinds/kind.h"

namespace kinds::physics {
namespace {

// program: u″ = −u with u(0) = 0 and u′(0) = 1, by the residual at points and a penalty at the edge
struct Physics final : PartsTask {
  torch::Tensor slope(const torch::Tensor& of, const torch::Tensor& at) {
    return torch::autograd::grad({of.sum()}, {at}, {}, true, /*create_graph=*/true).front();
  }
  LossTerms loss(const Batch& batch) override {
    const torch::Tensor x = batch.inputs.slice(1, 0, 1).clone().requires_grad_();
    const torch::Tensor u = net->forward(x);
    return {(slope(slope(u, x), x) + u).square().sum(), count(batch)};
  }
  torch::Tensor penalty() override {
    const torch::Tensor x = torch::zeros({1, 1}).requires_grad_();
    const torch::Tensor u = net->forward(x);
    return (u.square() + (slope(u, x) - 1).square()).sum();
  }

  Layers net = add("net", layers({1, 16, 1}));
};

Program make() {
  return {.task = std::make_unique<Physics>(), .data = points()};
}

// by hand
void by_hand(Program& program) {
  auto& task = dynamic_cast<Physics&>(*program.task);
  torch::optim::Adam adam(task.module().parameters(), 0.01);
  train(program, adam, [&](const Batch& batch) { return task.loss(batch).sum / kBatch + task.penalty(); });
}

const Register kind({.name = "physics-informed", .file = __FILE__, .make = make, .by_hand = by_hand});

}  // namespace
}  // namespace kinds::physics
