#include "kinds/kind.h"

namespace kinds::vae {
namespace {

// program: a variational autoencoder, whose noise is drawn by the sample
struct Vae final : PartsTask {
  LossTerms terms(const Batch& batch) {
    const auto halves = encoder->forward(batch.inputs).chunk(2, 1);
    const torch::Tensor &mean = halves[0], &log_variance = halves[1];
    const torch::Tensor z =
        mean + autotrain::randn_like(mean, batch, /*draw=*/0) * (0.5 * log_variance).exp();
    const torch::Tensor reconstruction = (decoder->forward(z) - batch.inputs).square().sum();
    const torch::Tensor divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum();
    return {reconstruction + divergence,
            count(batch),
            {{"reconstruction", reconstruction}, {"divergence", divergence}}};
  }
  LossTerms loss(const Batch& batch) override { return terms(batch); }
  bool names_samples() const override { return true; }

  Layers encoder = add("encoder", layers({4, 4})), decoder = add("decoder", layers({2, 4}));
};

Program make() {
  return {.task = std::make_unique<Vae>(), .data = points()};
}

// by hand
void by_hand(Program& program) {
  auto& task = dynamic_cast<Vae&>(*program.task);
  torch::optim::Adam adam(task.module().parameters(), 0.01);
  train(program, adam, [&](const Batch& batch) { return task.terms(batch).sum / kBatch; });
}

const Register kind({.name = "variational autoencoder", .file = __FILE__, .make = make, .by_hand = by_hand});

}  // namespace
}  // namespace kinds::vae
