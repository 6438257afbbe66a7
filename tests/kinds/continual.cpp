#include <torch/csrc/autograd/autograd.h>

#include "kinds/kind.h"

namespace kinds::continual {
namespace {

constexpr int64_t kFirst = 5;  // updates

// program: a second task after a first one, whose weights are held where they matter (EWC)
struct TwoTasks final : Dataset {
  int64_t size() const override { return 320; }
  // The largest coordinate, and from the sixth update on the smallest.
  Batch get(c10::ArrayRef<int64_t> indices, const SampleRandom& random) const override {
    const torch::Tensor inputs = points.index_select(0, torch::tensor(indices, torch::kInt64));
    std::vector<int64_t> second;
    for (size_t i = 0; i < indices.size(); ++i) second.push_back(random.position(i) >= kFirst * kBatch);
    return {.inputs = inputs,
            .targets = at::where(torch::tensor(second).to(torch::kBool), inputs.argmin(1), inputs.argmax(1)),
            .samples = std::ssize(indices)};
  }

  torch::Tensor points = numbers({320, 4});
};

struct Continual final : PartsTask {
  Continual() {
    for (const torch::Tensor& each : net->parameters()) {
      importance.push_back(torch::zeros_like(each).set_requires_grad(false));
      anchor.push_back(torch::zeros_like(each).set_requires_grad(false));
    }
  }
  torch::Tensor sum_of(const torch::Tensor& inputs, const torch::Tensor& targets) {
    return at::cross_entropy_loss(net->forward(inputs), targets, {}, at::Reduction::Sum);
  }
  LossTerms loss(const Batch& batch) override { return {sum_of(batch.inputs, batch.targets), count(batch)}; }
  torch::Tensor penalty() override {
    torch::Tensor sum = torch::zeros({});
    const auto parameters = net->parameters();
    for (size_t i = 0; i < parameters.size(); ++i)
      sum = sum + (importance[i] * (parameters[i] - anchor[i]).square()).sum();
    return 5 * sum;
  }
  // By the squares of the gradients of samples of the first task.
  void consolidate() {
    const torch::Tensor inputs = numbers({40, 4}, 77), targets = inputs.argmax(1);
    const auto parameters = net->parameters();
    for (int64_t sample = 0; sample < 40; ++sample) {
      const auto slopes = torch::autograd::grad(
          {sum_of(inputs.narrow(0, sample, 1), targets.narrow(0, sample, 1))}, parameters);
      for (size_t i = 0; i < slopes.size(); ++i) importance[i].add_(slopes[i].square(), 1.0 / 40);
    }
    for (size_t i = 0; i < parameters.size(); ++i) anchor[i].copy_(parameters[i].detach());
  }
  void after_step(const UpdateInfo& info) override {
    if (info.update == kFirst) consolidate();
  }
  std::vector<NamedTensor> state() override {
    std::vector<NamedTensor> all;
    for (size_t i = 0; i < anchor.size(); ++i) {
      all.push_back({"importance." + std::to_string(i), importance[i]});
      all.push_back({"anchor." + std::to_string(i), anchor[i]});
    }
    return all;
  }

  Layers net = add("net", layers({4, 16, 4}));
  std::vector<torch::Tensor> importance, anchor;
};

Program make() {
  return {.task = std::make_unique<Continual>(),
          .data = std::make_shared<TwoTasks>(),
          .recipe = Program::plain_recipe("sgd", 0.05)};
}

// by hand
void by_hand(Program& program) {
  auto& task = dynamic_cast<Continual&>(*program.task);
  torch::optim::SGD sgd(task.net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  for (int64_t update = 1; update <= kUpdates; ++update) {
    sgd.zero_grad();
    (task.loss(program.batch(update)).sum / kBatch + task.penalty()).backward();
    sgd.step();
    if (update == kFirst) task.consolidate();
  }
}

const Register kind({.name = "continual", .file = __FILE__, .make = make, .by_hand = by_hand});

}  // namespace
}  // namespace kinds::continual
