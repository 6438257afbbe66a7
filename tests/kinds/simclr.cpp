#include <torch/nn/functional/normalization.h>

#include "autotrain/two_passes.h"
#include "kinds/kind.h"

namespace kinds::simclr {
namespace {

// program: a contrastive loss over the whole batch, two views of each sample, in pieces
struct Contrastive final : PartsTask {
  torch::Tensor embed(const Batch& batch) {
    std::vector<torch::Tensor> views;
    for (const int64_t draw : {0, 1}) {
      const torch::Tensor view = batch.inputs + 0.1 * autotrain::randn_like(batch.inputs, batch, draw);
      views.push_back(torch::nn::functional::normalize(net->forward(view)));
    }
    return torch::stack(views, 1);  // [n, 2, 8]
  }
  static LossTerms compare(const torch::Tensor& embeddings) {
    const torch::Tensor logits = embeddings.select(1, 0).mm(embeddings.select(1, 1).t()) / 0.2;
    const torch::Tensor own = torch::arange(logits.size(0));
    return {at::cross_entropy_loss(logits, own, {}, at::Reduction::Sum),
            torch::tensor(static_cast<double>(logits.size(0)))};
  }
  bool makes_passes() const override { return true; }
  LossTerms passes(Passes& passes) override {
    return in_two_passes(
        passes, [&](const Batch& batch) { return embed(batch); }, compare);
  }
  LossTerms loss(const Batch& batch) override { return compare(embed(batch)); }
  bool splittable() const override { return false; }
  bool names_samples() const override { return true; }

  Layers net = add("net", layers({4, 16, 8}));
};

Program make() {
  return {.task = std::make_unique<Contrastive>(), .data = points()};
}

// by hand
void by_hand(Program& program) {
  auto& task = dynamic_cast<Contrastive&>(*program.task);
  torch::optim::Adam adam(task.module().parameters(), 0.01);
  train(program, adam, [&](const Batch& batch) { return task.loss(batch).sum / kBatch; });
}

const Register kind({.name = "contrastive, whole batch", .file = __FILE__, .make = make, .by_hand = by_hand});

}  // namespace
}  // namespace kinds::simclr
