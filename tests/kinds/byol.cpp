#include "kinds/kind.h"

namespace kinds::byol {
namespace {

// program: a teacher that follows its student after every step
struct Byol final : PartsTask {
  Byol() {
    for (auto& each : teacher->named_parameters()) {
      each.value().requires_grad_(false);
      each.value().copy_(student->named_parameters()[each.key()].detach());
    }
  }
  LossTerms loss(const Batch& batch) override {
    const torch::Tensor noise = 0.1 * autotrain::randn_like(batch.inputs, batch, /*draw=*/0);
    const torch::Tensor wanted = teacher->forward(batch.inputs - noise).detach();
    return {(student->forward(batch.inputs + noise) - wanted).square().sum(), count(batch)};
  }
  void after_step(const UpdateInfo&) override {
    const torch::NoGradGuard no_gradients;
    for (auto& each : teacher->named_parameters())
      each.value().lerp_(student->named_parameters()[each.key()], 0.1);
  }
  bool names_samples() const override { return true; }

  Layers student = add("student", layers({4, 8, 4})), teacher = add("teacher", layers({4, 8, 4}));
};

Program make() {
  return {.task = std::make_unique<Byol>(), .data = points(), .recipe = Program::plain_recipe("sgd", 0.05)};
}

// by hand
void by_hand(Program& program) {
  auto& task = dynamic_cast<Byol&>(*program.task);
  torch::optim::SGD sgd(task.student->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  for (int64_t update = 1; update <= kUpdates; ++update) {
    sgd.zero_grad();
    (task.loss(program.batch(update)).sum / kBatch).backward();
    sgd.step();
    task.after_step({});
  }
}

const Register kind({.name = "teacher that follows", .file = __FILE__, .make = make, .by_hand = by_hand});

}  // namespace
}  // namespace kinds::byol
