#include "kinds/kind.h"

namespace kinds::diffusion {
namespace {

// program: denoising diffusion, times and noise drawn by the sample
struct Diffusion final : PartsTask {
  LossTerms loss(const Batch& batch) override {
    const torch::Tensor noise = autotrain::randn_like(batch.inputs, batch, /*draw=*/0);
    const torch::Tensor time = autotrain::rand_like(batch.inputs.slice(1, 0, 1), batch, /*draw=*/1);
    const torch::Tensor kept = (time * 1.5707963).cos(), added = (time * 1.5707963).sin();
    const torch::Tensor noisy = kept * batch.inputs + added * noise;
    return {(net->forward(torch::cat({noisy, time}, 1)) - noise).square().sum(), count(batch)};
  }
  bool names_samples() const override { return true; }

  Layers net = add("net", layers({5, 32, 4}));
};

Program make() {
  return {.task = std::make_unique<Diffusion>(), .data = points()};
}

// by hand
void by_hand(Program& program) {
  auto& task = dynamic_cast<Diffusion&>(*program.task);
  torch::optim::Adam adam(task.module().parameters(), 0.01);
  train(program, adam, [&](const Batch& batch) { return task.loss(batch).sum / kBatch; });
}

const Register kind({.name = "diffusion", .file = __FILE__, .make = make, .by_hand = by_hand});

}  // namespace
}  // namespace kinds::diffusion
