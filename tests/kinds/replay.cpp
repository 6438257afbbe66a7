#include "kinds/kind.h"

namespace kinds::replay {
namespace {

// program: a replay buffer that grows after every step; what it holds is the task's state
struct Buffer final : Dataset {
  int64_t size() const override { return 256; }  // what counts as an epoch
  bool changes() const override { return true; }
  Batch get(c10::ArrayRef<int64_t> indices, const SampleRandom&) const override {
    const int64_t held = std::max<int64_t>(1, filled.item<int64_t>());
    const torch::Tensor rows = torch::tensor(indices, torch::kInt64).remainder(held);
    return {.inputs = memory.index_select(0, rows), .samples = std::ssize(indices)};
  }
  void push(const torch::Tensor& seen) {
    memory.narrow(0, filled.item<int64_t>() % 256, seen.size(0)).copy_(seen);
    filled.add_(seen.size(0)).clamp_max_(256);
  }

  torch::Tensor memory = torch::zeros({256, 4}), filled = torch::zeros({}, torch::kInt64);
};

struct Replay final : PartsTask {
  explicit Replay(std::shared_ptr<Buffer> data) : buffer(std::move(data)) { explore(0); }
  // Where the network leads from here, met in the world.
  void explore(int64_t update) {
    const torch::NoGradGuard no_gradients;
    buffer->push(net->forward(numbers({16, 4}, static_cast<uint64_t>(update))).tanh());
  }
  LossTerms loss(const Batch& batch) override {
    return {(net->forward(batch.inputs) - batch.inputs.roll(1, 1)).square().sum(), count(batch)};
  }
  void after_step(const UpdateInfo& info) override { explore(info.update); }
  std::vector<NamedTensor> state() override {
    return {{"memory", buffer->memory}, {"filled", buffer->filled}};
  }

  std::shared_ptr<Buffer> buffer;
  Layers net = add("net", layers({4, 8, 4}));
};

Program make() {
  const auto buffer = std::make_shared<Buffer>();
  return {.task = std::make_unique<Replay>(buffer), .data = buffer};
}

// by hand
void by_hand(Program& program) {
  auto& task = dynamic_cast<Replay&>(*program.task);
  torch::optim::Adam adam(task.module().parameters(), 0.01);
  for (int64_t update = 1; update <= kUpdates; ++update) {
    adam.zero_grad();
    (task.loss(program.batch(update)).sum / kBatch).backward();
    adam.step();
    task.explore(update);
  }
}

const Register kind({.name = "replay buffer", .file = __FILE__, .make = make, .by_hand = by_hand});

}  // namespace
}  // namespace kinds::replay
