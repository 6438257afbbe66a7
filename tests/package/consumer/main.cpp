// A user's program: its own module and data, trained through autotrain::Trainer, its batch sizes measured by
// autotrain::sweep. Its process group of one rank stands for one that a program has for itself.
#include <autotrain/rank_group.h>
#include <autotrain/sweep.h>
#include <autotrain/trainer.h>
#include <torch/nn.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <iostream>

struct Net : torch::nn::Module {
  Net()
      : hidden(register_module("hidden", torch::nn::Linear(8, 32))),
        output(register_module("output", torch::nn::Linear(32, 3))) {}
  torch::Tensor forward(torch::Tensor x) { return output->forward(torch::relu(hidden->forward(x))); }
  torch::nn::Linear hidden, output;
};

int main(int argc, char** argv) {
  torch::manual_seed(1);
  const torch::Tensor inputs = torch::randn({2000, 8}), more = torch::randn({500, 8});
  const autotrain::TensorDataset train(inputs, inputs.slice(1, 0, 3).argmax(1));
  const autotrain::TensorDataset validation(more, more.slice(1, 0, 3).argmax(1));

  const autotrain::Recipe recipe = autotrain::load_recipe(argv[1]);
  const auto group = std::make_shared<autotrain::RankGroup>(c10::make_intrusive<c10d::ProcessGroup>(
      c10::make_intrusive<c10d::HashStore>(), /*rank=*/0, /*size=*/1));
  autotrain::Trainer trainer(recipe,
                             autotrain::supervised(std::make_shared<Net>(), autotrain::cross_entropy()),
                             train, validation, {.output = argc > 2 ? argv[2] : "", .group = group});
  trainer.on_update([](const autotrain::UpdateRecord& u) {
    return u.update < 150 ? autotrain::Flow::kContinue : autotrain::Flow::kStop;
  });
  const autotrain::Summary summary = trainer.fit();
  std::cout << trainer.plan().micro_batch << " x " << trainer.plan().window << ", " << summary.updates
            << " updates, " << autotrain::to_string(summary.stopped_by) << ", accuracy "
            << summary.final.at("accuracy") << "\n";

  Net net;
  const autotrain::SweepResult result =
      autotrain::sweep(net,
                       [](int64_t samples) {
                         return torch::randn({samples, 8});
                       },
                       {.batches = {1, 16}, .rounds = 1, .max_seconds = 0.1, .roofline = false});
  for (const autotrain::SweepPoint& point : result.points)
    std::cout << "batch " << point.batch << (point.samples_per_second > 0 ? " measured\n" : " failed\n");
}
