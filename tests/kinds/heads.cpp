#include <torch/nn/functional/loss.h>

#include <map>

#include "kinds/kind.h"

namespace kinds::heads {
namespace {

// program: a model whose result is a dictionary: a class, and the inputs once more
struct Heads final : PartsTask {
  std::map<std::string, torch::Tensor> forward(const torch::Tensor& inputs) {
    const torch::Tensor shared = trunk->forward(inputs).tanh();
    return {{"class", classes->forward(shared)}, {"inputs", copies->forward(shared)}};
  }
  LossTerms loss(const Batch& batch) override {
    const auto out = forward(batch.inputs);
    const torch::Tensor classes_apart =
        at::cross_entropy_loss(out.at("class"), batch.targets, {}, at::Reduction::Sum);
    const torch::Tensor inputs_apart = (out.at("inputs") - batch.inputs).square().sum();
    return {.sum = classes_apart + 0.5 * inputs_apart,
            .weight = count(batch),
            .parts = {{"class", classes_apart}, {"inputs", inputs_apart}}};
  }

  Layers trunk = add("trunk", layers({4, 16})), classes = add("classes", layers({16, 4})),
         copies = add("copies", layers({16, 4}));
};

Program make() {
  return {.task = std::make_unique<Heads>(), .data = points()};
}

// by hand
void by_hand(Program& program) {
  auto& task = dynamic_cast<Heads&>(*program.task);
  torch::optim::Adam adam(task.module().parameters(), 0.01);
  train(program, adam, [&](const Batch& batch) {
    const auto out = task.forward(batch.inputs);
    return torch::nn::functional::cross_entropy(out.at("class"), batch.targets) +
           0.5 * (out.at("inputs") - batch.inputs).square().sum() / kBatch;
  });
}

const Register kind({.name = "several heads", .file = __FILE__, .make = make, .by_hand = by_hand});

}  // namespace
}  // namespace kinds::heads
