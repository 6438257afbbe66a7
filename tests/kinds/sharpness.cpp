#include <torch/csrc/autograd/autograd.h>

#include "kinds/kind.h"

namespace kinds::sharpness {
namespace {

constexpr double kRadius = 0.1;

// program: the gradient where the loss is worst nearby (SAM), of the whole batch in pieces
struct Sharpness final : PartsTask {
  torch::Tensor sum_of(const Batch& batch) {
    return at::cross_entropy_loss(net->forward(batch.inputs), batch.targets, {}, at::Reduction::Sum);
  }
  LossTerms loss(const Batch& batch) override { return {sum_of(batch), count(batch)}; }
  bool makes_passes() const override { return true; }
  bool splittable() const override { return false; }  // where the loss is worst, all samples say together
  LossTerms passes(Passes& passes) override {
    const auto parameters = net->parameters();
    std::vector<torch::Tensor> uphill, before;
    for (const torch::Tensor& each : parameters) {
      uphill.push_back(torch::zeros_like(each));
      before.push_back(each.detach().clone());
    }
    for (const Batch& batch : passes.batches()) {
      const auto slopes = torch::autograd::grad({sum_of(batch)}, parameters);
      for (size_t i = 0; i < slopes.size(); ++i) uphill[i] += slopes[i];
    }
    move(parameters, uphill);
    LossTerms terms{torch::zeros({}), torch::zeros({})};
    for (const Batch& batch : passes.batches()) {
      const torch::Tensor sum = sum_of(batch);
      passes.backward(sum);
      terms.sum += sum.detach();
      terms.weight += batch.samples;
    }
    put_back(parameters, before);
    return terms;
  }
  static void move(const std::vector<torch::Tensor>& parameters, const std::vector<torch::Tensor>& uphill) {
    const torch::NoGradGuard no_gradients;
    torch::Tensor square = torch::zeros({});
    for (const torch::Tensor& each : uphill) square += each.square().sum();
    for (size_t i = 0; i < uphill.size(); ++i) parameters[i].add_(uphill[i] * (kRadius / square.sqrt()));
  }
  static void put_back(const std::vector<torch::Tensor>& parameters,
                       const std::vector<torch::Tensor>& before) {
    const torch::NoGradGuard no_gradients;
    for (size_t i = 0; i < before.size(); ++i) parameters[i].copy_(before[i]);
  }

  Layers net = add("net", layers({4, 16, 4}));
};

Program make() {
  return {
      .task = std::make_unique<Sharpness>(), .data = points(), .recipe = Program::plain_recipe("sgd", 0.05)};
}

// by hand
void by_hand(Program& program) {
  auto& task = dynamic_cast<Sharpness&>(*program.task);
  const auto parameters = task.net->parameters();
  torch::optim::SGD sgd(parameters, torch::optim::SGDOptions(0.05).momentum(0.9));
  for (int64_t update = 1; update <= kUpdates; ++update) {
    const Batch batch = program.batch(update);
    std::vector<torch::Tensor> uphill, before;
    sgd.zero_grad();
    (task.sum_of(batch) / kBatch).backward();
    for (const torch::Tensor& each : parameters) {
      uphill.push_back(each.grad().clone());
      before.push_back(each.detach().clone());
    }
    Sharpness::move(parameters, uphill);
    sgd.zero_grad();
    (task.sum_of(batch) / kBatch).backward();
    Sharpness::put_back(parameters, before);
    sgd.step();
  }
}

const Register kind(
    {.name = "sharpness-aware", .file = __FILE__, .make = make, .by_hand = by_hand, .ranks = false});

}  // namespace
}  // namespace kinds::sharpness
