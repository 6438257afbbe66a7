#include "kinds/kind.h"

namespace kinds::actor_critic {
namespace {

// program: an actor and a critic; after every step the actor plays anew
struct Played final : Dataset {
  int64_t size() const override { return kBatch; }  // an update is an epoch of what was just played
  bool changes() const override { return true; }
  Batch get(c10::ArrayRef<int64_t> indices, const SampleRandom&) const override {
    const torch::Tensor rows = torch::tensor(indices, torch::kInt64);
    return {.inputs = places.index_select(0, rows),
            .targets = actions.index_select(0, rows),
            .samples = std::ssize(indices),
            .more_inputs = {rewards.index_select(0, rows)}};
  }
  DatasetInfo info() const override {
    return {.inputs = {{"place", torch::kFloat32, {4}}, {"reward", torch::kFloat32, {}}}};
  }

  torch::Tensor places = torch::zeros({kBatch, 4}), actions = torch::zeros({kBatch}, torch::kInt64),
                rewards = torch::zeros({kBatch});
};

struct ActorCritic final : PartsTask {
  explicit ActorCritic(std::shared_ptr<Played> data) : played(std::move(data)) { play(0); }
  // The reward is 1 for the action that names the largest coordinate.
  void play(int64_t update) {
    const torch::NoGradGuard no_gradients;
    const auto chance = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(update));
    played->places.copy_(at::randn({kBatch, 4}, chance));
    played->actions.copy_(
        at::multinomial(at::softmax(actor->forward(played->places), 1), 1, true, chance).squeeze(1));
    played->rewards.copy_(played->actions.eq(played->places.argmax(1)));
  }
  LossTerms loss(const Batch& batch) override {
    const torch::Tensor value = critic->forward(batch.inputs).squeeze(1);
    const torch::Tensor advantage = batch.more_inputs[0] - value;
    const torch::Tensor chosen =
        at::log_softmax(actor->forward(batch.inputs), 1).gather(1, batch.targets.unsqueeze(1)).squeeze(1);
    const torch::Tensor policy = -(chosen * advantage.detach()).sum(), error = advantage.square().sum();
    return {policy + error, count(batch), {{"policy", policy}, {"critic", error}}};
  }
  void after_step(const UpdateInfo& info) override { play(info.update); }
  std::vector<NamedTensor> state() override {
    return {{"places", played->places}, {"actions", played->actions}, {"rewards", played->rewards}};
  }

  std::shared_ptr<Played> played;
  Layers actor = add("actor", layers({4, 16, 4})), critic = add("critic", layers({4, 16, 1}));
};

template <int kThousandths>
std::unique_ptr<torch::optim::Optimizer> adam(std::vector<torch::Tensor> parameters) {
  return std::make_unique<torch::optim::Adam>(std::move(parameters), kThousandths * 1e-3);
}

Program make() {
  const auto played = std::make_shared<Played>();
  return {.task = std::make_unique<ActorCritic>(played),
          .data = played,
          .optimizers = {{.name = "actor", .match = {"actor.*"}, .make = adam<5>},
                         {.name = "critic", .match = {"critic.*"}, .make = adam<20>}},
          .recipe = Program::plain_recipe("", 0)};
}

// by hand
void by_hand(Program& program) {
  auto& task = dynamic_cast<ActorCritic&>(*program.task);
  const auto actor = adam<5>(task.actor->parameters()), critic = adam<20>(task.critic->parameters());
  for (int64_t update = 1; update <= kUpdates; ++update) {
    actor->zero_grad();
    critic->zero_grad();
    (task.loss(program.batch(update)).sum / kBatch).backward();
    actor->step();
    critic->step();
    task.play(update);
  }
}

const Register kind({.name = "actor and critic", .file = __FILE__, .make = make, .by_hand = by_hand});

}  // namespace
}  // namespace kinds::actor_critic
