#include "kinds/kind.h"

namespace kinds::gan {
namespace {

// program: two updates of a discriminator for one of a generator, each with an optimizer of its own
struct Gan final : PartsTask {
  static bool is_generators(const UpdateInfo& info) { return info.update % 3 == 0; }

  torch::Tensor terms(const Batch& batch, bool generators) {
    const torch::Tensor fake =
        generator->forward(autotrain::randn_like(batch.inputs.slice(1, 0, 2), batch, 0));
    if (generators) return at::softplus(-discriminator->forward(fake)).sum();
    return at::softplus(-discriminator->forward(batch.inputs)).sum() +
           at::softplus(discriminator->forward(fake.detach())).sum();
  }
  void begin_update(const UpdateInfo& info) override { turn = is_generators(info); }
  LossTerms loss(const Batch& batch) override { return {terms(batch, turn), count(batch)}; }
  bool names_samples() const override { return true; }

  Layers generator = add("generator", layers({2, 8, 4})),
         discriminator = add("discriminator", layers({4, 8, 1}));
  bool turn = false;
};

std::unique_ptr<torch::optim::Optimizer> adam(std::vector<torch::Tensor> parameters) {
  return std::make_unique<torch::optim::Adam>(std::move(parameters),
                                              torch::optim::AdamOptions(0.02).betas({0.5, 0.9}));
}

Program make() {
  return {.task = std::make_unique<Gan>(),
          .data = points(),
          .optimizers =
              {{.name = "generator", .match = {"generator.*"}, .make = adam, .turn = Gan::is_generators},
               {.name = "discriminator",
                .match = {"discriminator.*"},
                .make = adam,
                .turn = [](const UpdateInfo& info) { return !Gan::is_generators(info); }}},
          .recipe = Program::plain_recipe("", 0)};
}

// by hand
void by_hand(Program& program) {
  auto& task = dynamic_cast<Gan&>(*program.task);
  const auto of_generator = adam(task.generator->parameters()),
             of_discriminator = adam(task.discriminator->parameters());
  for (int64_t update = 1; update <= kUpdates; ++update) {
    const bool generators = Gan::is_generators({.update = update});
    of_generator->zero_grad();
    of_discriminator->zero_grad();
    (task.terms(program.batch(update), generators) / kBatch).backward();
    (generators ? of_generator : of_discriminator)->step();
  }
}

const Register kind(
    {.name = "adversarial, two optimizers", .file = __FILE__, .make = make, .by_hand = by_hand});

}  // namespace
}  // namespace kinds::gan
