#include <torch/csrc/autograd/autograd.h>

#include "kinds/kind.h"

namespace kinds::gradient_penalty {
namespace {

// program: a critic whose slope between samples and noise is held at 1 (WGAN-GP), sample by sample
struct Penalised final : PartsTask {
  LossTerms loss(const Batch& batch) override {
    const torch::Tensor fake = autotrain::randn_like(batch.inputs, batch, /*draw=*/0);
    const torch::Tensor share = autotrain::rand_like(batch.inputs.slice(1, 0, 1), batch, /*draw=*/1);
    const torch::Tensor between = (share * batch.inputs + (1 - share) * fake).requires_grad_();
    const torch::Tensor slope = torch::autograd::grad({critic->forward(between).sum()}, {between}, {}, true,
                                                      /*create_graph=*/true)[0];
    const torch::Tensor distance = critic->forward(fake).sum() - critic->forward(batch.inputs).sum();
    const torch::Tensor penalty = (slope.norm(2, 1) - 1).square().sum();
    return {distance + 10 * penalty, count(batch), {{"distance", distance}, {"penalty", penalty}}};
  }
  bool names_samples() const override { return true; }

  Layers critic = add("critic", layers({4, 16, 1}));
};

Program make() {
  return {.task = std::make_unique<Penalised>(), .data = points()};
}

// by hand
void by_hand(Program& program) {
  auto& task = dynamic_cast<Penalised&>(*program.task);
  torch::optim::Adam adam(task.module().parameters(), 0.01);
  train(program, adam, [&](const Batch& batch) { return task.loss(batch).sum / kBatch; });
}

const Register kind({.name = "gradient penalty", .file = __FILE__, .make = make, .by_hand = by_hand});

}  // namespace
}  // namespace kinds::gradient_penalty
