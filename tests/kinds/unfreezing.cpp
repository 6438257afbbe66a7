#include "kinds/kind.h"

namespace kinds::unfreezing {
namespace {

// program: a head alone at first, then the layers below it too
struct Unfreezing final : PartsTask {
  void freeze_by(int64_t update) {
    for (torch::Tensor& each : trunk->parameters()) each.requires_grad_(update > 5);
  }
  void begin_update(const UpdateInfo& info) override { freeze_by(info.update); }
  LossTerms loss(const Batch& batch) override {
    const torch::Tensor logits = head->forward(trunk->forward(batch.inputs).tanh());
    return {at::cross_entropy_loss(logits, batch.targets, {}, at::Reduction::Sum), count(batch)};
  }

  Layers trunk = add("trunk", layers({4, 16})), head = add("head", layers({16, 4}));
};

Program make() {
  return {.task = std::make_unique<Unfreezing>(), .data = points()};
}

// by hand
void by_hand(Program& program) {
  auto& task = dynamic_cast<Unfreezing&>(*program.task);
  torch::optim::Adam adam(task.module().parameters(), 0.01);
  for (int64_t update = 1; update <= kUpdates; ++update) {
    task.freeze_by(update);
    adam.zero_grad();
    (task.loss(program.batch(update)).sum / kBatch).backward();
    adam.step();
  }
}

const Register kind({.name = "unfrozen later", .file = __FILE__, .make = make, .by_hand = by_hand});

}  // namespace
}  // namespace kinds::unfreezing
