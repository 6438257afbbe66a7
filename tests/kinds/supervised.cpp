#include "kinds/kind.h"

namespace kinds::with_targets {
namespace {

// program: a classifier
Program make() {
  const Layers net = layers({4, 16, 4});
  return {.task = supervised(net, cross_entropy()), .data = points()};
}

// by hand
void by_hand(Program& program) {
  auto& net = dynamic_cast<torch::nn::SequentialImpl&>(program.module());
  torch::optim::Adam adam(net.parameters(), 0.01);
  train(program, adam,
        [&](const Batch& batch) { return at::cross_entropy_loss(net.forward(batch.inputs), batch.targets); });
}

const Register kind({.name = "supervised", .file = __FILE__, .make = make, .by_hand = by_hand});

}  // namespace
}  // namespace kinds::with_targets
