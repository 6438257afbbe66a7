#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>

#include "kinds/kind.h"

namespace kinds::private_learning {
namespace {

constexpr double kBound = 0.5, kNoise = 0.3;

// program: the gradient of each sample clipped by itself, and noise on their mean (DP-SGD)
struct Private final : PartsTask {
  torch::Tensor sum_of(const Batch& batch, int64_t first, int64_t samples) {
    return at::cross_entropy_loss(net->forward(batch.inputs.narrow(0, first, samples)),
                                  batch.targets.narrow(0, first, samples), {}, at::Reduction::Sum);
  }
  LossTerms loss(const Batch& batch) override { return {sum_of(batch, 0, batch.samples), count(batch)}; }
  bool makes_passes() const override { return true; }
  LossTerms passes(Passes& passes) override {
    LossTerms terms{torch::zeros({}), torch::zeros({})};
    const auto parameters = net->parameters();
    for (const Batch& batch : passes.batches()) {
      for (int64_t i = 0; i < batch.samples; ++i) {
        const torch::Tensor sum = sum_of(batch, i, 1);
        const auto slopes = torch::autograd::grad({sum}, parameters);
        torch::Tensor square = torch::zeros({});
        for (const torch::Tensor& each : slopes) square += each.square().sum();
        const torch::Tensor kept = (kBound / square.sqrt()).clamp_max(1);
        for (size_t j = 0; j < slopes.size(); ++j) passes.backward(parameters[j], slopes[j] * kept);
        terms.sum += sum.detach();
      }
      terms.weight += batch.samples;
    }
    return terms;
  }
  void before_step(const UpdateInfo& info, Gradients& gradients) override {
    uint64_t draw = static_cast<uint64_t>(info.update) * 100;
    for (const NamedTensor& each : gradients.all())
      each.tensor.add_(numbers(each.tensor.sizes().vec(), draw++), kNoise * kBound / kBatch);
  }

  Layers net = add("net", layers({4, 8, 4}));
};

Program make() {
  return {.task = std::make_unique<Private>(), .data = points(), .recipe = Program::plain_recipe("sgd", 0.1)};
}

// by hand
void by_hand(Program& program) {
  auto& task = dynamic_cast<Private&>(*program.task);
  auto parameters = task.net->parameters();
  torch::optim::SGD sgd(parameters, torch::optim::SGDOptions(0.1).momentum(0.9));
  for (int64_t update = 1; update <= kUpdates; ++update) {
    const Batch batch = program.batch(update);
    std::vector<torch::Tensor> sums;
    for (const torch::Tensor& each : parameters) sums.push_back(torch::zeros_like(each));
    for (int64_t i = 0; i < kBatch; ++i) {
      sgd.zero_grad();
      task.sum_of(batch, i, 1).backward();
      double square = 0;
      for (const torch::Tensor& each : parameters) square += each.grad().square().sum().item<double>();
      for (size_t j = 0; j < sums.size(); ++j)
        sums[j] += parameters[j].grad() * std::min(1.0, kBound / std::sqrt(square));
    }
    uint64_t draw = static_cast<uint64_t>(update) * 100;
    for (size_t j = 0; j < sums.size(); ++j)
      parameters[j].mutable_grad() =
          (sums[j] + kNoise * kBound * numbers(sums[j].sizes().vec(), draw++)) / kBatch;
    sgd.step();
  }
}

const Register kind(
    {.name = "private, clipped by the sample", .file = __FILE__, .make = make, .by_hand = by_hand});

}  // namespace
}  // namespace kinds::private_learning
