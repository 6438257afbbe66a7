#include <cmath>

#include "kinds/kind.h"

namespace kinds::search {
namespace {

// program: a random search of rates, whose best one is trained with; trainers in a loop draw nothing of it
double searched_rate() {
  double best_rate = 0, least = 1e9;
  torch::manual_seed(7);
  for (int trial = 0; trial < 3; ++trial) {
    const double rate = std::pow(10.0, -3 + 2 * torch::rand({}).item<double>());
    const auto data = points();
    Recipe recipe = Program::plain_recipe("adam", rate);
    Trainer trainer(recipe, supervised(layers({4, 8, 4}), cross_entropy()), *data, *data,
                    {.write_files = false});
    const double loss = trainer.fit().final.at("loss");
    if (loss < least) least = loss, best_rate = rate;
  }
  return best_rate;
}

Program make() {
  const double rate = searched_rate();
  torch::manual_seed(1);
  return {.task = supervised(layers({4, 8, 4}), cross_entropy()),
          .data = points(),
          .recipe = Program::plain_recipe("adam", rate)};
}

// by hand
double rate_by_hand() {
  double best_rate = 0, least = 1e9;
  torch::manual_seed(7);
  for (int trial = 0; trial < 3; ++trial) {
    const double rate = std::pow(10.0, -3 + 2 * torch::rand({}).item<double>());
    Program program{.data = points()};
    const Layers net = layers({4, 8, 4});
    torch::optim::Adam adam(net->parameters(), rate);
    train(program, adam, [&](const Batch& batch) {
      return at::cross_entropy_loss(net->forward(batch.inputs), batch.targets);
    });
    const torch::NoGradGuard no_gradients;
    std::vector<int64_t> all(320);
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
    const Batch batch = program.data->get(all, SampleRandom(0, all, all));
    const double loss = at::cross_entropy_loss(net->forward(batch.inputs), batch.targets).item<double>();
    if (loss < least) least = loss, best_rate = rate;
  }
  return best_rate;
}

void by_hand(Program& program) {
  auto& net = dynamic_cast<torch::nn::SequentialImpl&>(program.module());
  torch::optim::Adam adam(net.parameters(), rate_by_hand());
  train(program, adam,
        [&](const Batch& batch) { return at::cross_entropy_loss(net.forward(batch.inputs), batch.targets); });
}

const Register kind(
    {.name = "hyperparameter search", .file = __FILE__, .make = make, .by_hand = by_hand, .ranks = false});

}  // namespace
}  // namespace kinds::search
