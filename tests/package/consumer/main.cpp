// A user's program: its own module and data, trained through autotrain::Trainer.
#include <autotrain/trainer.h>
#include <torch/nn.h>

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
  autotrain::Trainer trainer(recipe,
                             autotrain::supervised(std::make_shared<Net>(), autotrain::cross_entropy()),
                             train, validation, {.output = argc > 2 ? argv[2] : ""});
  trainer.on_update([](const autotrain::UpdateRecord& u) {
    return u.update < 150 ? autotrain::Flow::kContinue : autotrain::Flow::kStop;
  });
  const autotrain::Summary summary = trainer.fit();
  std::cout << trainer.plan().micro_batch << " x " << trainer.plan().window << ", " << summary.updates
            << " updates, " << autotrain::to_string(summary.stopped_by) << ", accuracy "
            << summary.final.at("accuracy") << "\n";
}
