#include "kinds/kind.h"

namespace kinds::recurrent {
namespace {

// program: truncated backpropagation through time; each update goes on where the one before ended
struct Series final : Dataset {  // 32 series side by side, of which an update has the next four steps
  int64_t size() const override { return kBatch * 25; }
  Batch get(c10::ArrayRef<int64_t> indices, const SampleRandom&) const override {
    const torch::Tensor index = torch::tensor(indices, torch::kInt64);
    const torch::Tensor lane = index.remainder(kBatch), begin = index.div(kBatch, "floor") * 4;
    const torch::Tensor at = begin.unsqueeze(1) + torch::arange(5).unsqueeze(0);
    const torch::Tensor values = (at * 0.3 + lane.unsqueeze(1)).sin();
    return {
        .inputs = values.slice(1, 0, 4), .targets = values.slice(1, 1, 5), .samples = std::ssize(indices)};
  }
};

struct Recurrent final : PartsTask {
  std::pair<torch::Tensor, torch::Tensor> unroll(const Batch& batch, torch::Tensor state) {
    torch::Tensor sum = torch::zeros({});
    for (int64_t t = 0; t < 4; ++t) {
      state = torch::tanh(cell->forward(torch::cat({batch.inputs.slice(1, t, t + 1), state}, 1)));
      sum = sum + (read->forward(state) - batch.targets.slice(1, t, t + 1)).square().sum();
    }
    return {sum, state.detach()};
  }
  LossTerms loss(const Batch& batch) override {
    const torch::Tensor lanes = batch.indices.remainder(kBatch);
    const auto [sum, last] = unroll(batch, carried.index_select(0, lanes));
    next.index_copy_(0, lanes, last);
    return {sum, count(batch)};
  }
  // What a window found is what the next one begins with.
  void begin_update(const UpdateInfo&) override { carried.copy_(next); }
  std::vector<NamedTensor> state() override { return {{"carried", carried}, {"next", next}}; }
  bool names_samples() const override { return true; }

  Layers cell = add("cell", layers({9, 8})), read = add("read", layers({8, 1}));
  torch::Tensor carried = torch::zeros({kBatch, 8}), next = torch::zeros({kBatch, 8});
};

Program make() {
  Program program{.task = std::make_unique<Recurrent>(), .data = std::make_shared<Series>()};
  program.recipe.data.shuffle = false;
  return program;
}

// by hand
void by_hand(Program& program) {
  auto& task = dynamic_cast<Recurrent&>(*program.task);
  torch::optim::Adam adam(task.module().parameters(), 0.01);
  torch::Tensor state = torch::zeros({kBatch, 8});
  train(program, adam, [&](const Batch& batch) {
    const auto [sum, last] = task.unroll(batch, state);
    state = last;
    return sum / kBatch;
  });
}

const Register kind({.name = "truncated backpropagation",
                     .file = __FILE__,
                     .make = make,
                     .by_hand = by_hand,
                     .ranks = false});

}  // namespace
}  // namespace kinds::recurrent
