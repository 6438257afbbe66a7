#include "kinds/kind.h"

namespace kinds::distillation {
namespace {

// program: a student of a frozen teacher, with named parts of the loss
struct Distillation final : PartsTask {
  Distillation() {
    for (torch::Tensor& parameter : teacher->parameters()) parameter.requires_grad_(false);
  }
  LossTerms loss(const Batch& batch) override {
    const torch::Tensor logits = student->forward(batch.inputs);
    const torch::Tensor wanted = at::softmax(teacher->forward(batch.inputs) / 2, 1);
    const torch::Tensor hard = at::cross_entropy_loss(logits, batch.targets, {}, at::Reduction::Sum);
    const torch::Tensor soft = -(wanted * at::log_softmax(logits / 2, 1)).sum();
    return {hard + 4 * soft, count(batch), {{"hard", hard}, {"soft", soft}}};
  }

  Layers student = add("student", layers({4, 8, 4})), teacher = add("teacher", layers({4, 32, 4}));
};

Program make() {
  return {.task = std::make_unique<Distillation>(), .data = points()};
}

// by hand
void by_hand(Program& program) {
  auto& task = dynamic_cast<Distillation&>(*program.task);
  torch::optim::Adam adam(task.student->parameters(), 0.01);
  train(program, adam, [&](const Batch& batch) { return task.loss(batch).sum / kBatch; });
}

const Register kind({.name = "distillation", .file = __FILE__, .make = make, .by_hand = by_hand});

}  // namespace
}  // namespace kinds::distillation
