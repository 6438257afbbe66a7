#include <torch/nn/functional/normalization.h>

#include "kinds/kind.h"

namespace kinds::queue {
namespace {

// program: a queue of keys, of an encoder that follows (MoCo)
struct Queue final : PartsTask {
  Queue() {
    for (auto& each : key->named_parameters()) {
      each.value().requires_grad_(false);
      each.value().copy_(query->named_parameters()[each.key()].detach());
    }
  }
  static torch::Tensor embed(Layers net, const Batch& batch, int64_t draw) {
    const torch::Tensor view = batch.inputs + 0.1 * autotrain::randn_like(batch.inputs, batch, draw);
    return torch::nn::functional::normalize(net->forward(view));
  }
  // The loss, and the keys of the batch.
  std::pair<torch::Tensor, torch::Tensor> terms(const Batch& batch) {
    const torch::Tensor own = embed(query, batch, 0), keys = embed(key, batch, 1).detach();
    const torch::Tensor logits = torch::cat({(own * keys).sum(1, true), own.mm(queue.t())}, 1) / 0.2;
    const torch::Tensor first = torch::zeros({batch.samples}, torch::kInt64);
    return {at::cross_entropy_loss(logits, first, {}, at::Reduction::Sum), keys};
  }
  void begin_update(const UpdateInfo&) override { filled.zero_(); }
  // The queue is the same for all pieces of an update, whose keys wait until its end.
  LossTerms loss(const Batch& batch) override {
    const auto [sum, keys] = terms(batch);
    fresh.narrow(0, filled.item<int64_t>(), batch.samples).copy_(keys);
    filled.add_(batch.samples);
    return {sum, count(batch)};
  }
  void after_step(const UpdateInfo&) override { follow(fresh); }
  void follow(const torch::Tensor& keys) {
    const torch::NoGradGuard no_gradients;
    queue.copy_(torch::cat({keys, queue.slice(0, 0, -kBatch)}));
    for (auto& each : key->named_parameters()) each.value().lerp_(query->named_parameters()[each.key()], 0.1);
  }
  std::vector<NamedTensor> state() override {
    return {{"queue", queue}, {"fresh", fresh}, {"filled", filled}};
  }
  bool names_samples() const override { return true; }

  Layers query = add("query", layers({4, 16, 8})), key = add("key", layers({4, 16, 8}));
  torch::Tensor queue = torch::nn::functional::normalize(numbers({3 * kBatch, 8})),
                fresh = torch::zeros({kBatch, 8}), filled = torch::zeros({}, torch::kInt64);
};

Program make() {
  return {.task = std::make_unique<Queue>(), .data = points(), .recipe = Program::plain_recipe("sgd", 0.05)};
}

// by hand
void by_hand(Program& program) {
  auto& task = dynamic_cast<Queue&>(*program.task);
  torch::optim::SGD sgd(task.query->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  for (int64_t update = 1; update <= kUpdates; ++update) {
    sgd.zero_grad();
    const auto [sum, keys] = task.terms(program.batch(update));
    (sum / kBatch).backward();
    sgd.step();
    task.follow(keys);
  }
}

const Register kind(
    {.name = "queue of keys", .file = __FILE__, .make = make, .by_hand = by_hand, .ranks = false});

}  // namespace
}  // namespace kinds::queue
