// Updates of a workload's parameters by one optimizer in turns with the others: reads lines "OPTIMIZER
// SECONDS" from standard input and answers each with one JSON line. Gradients are random ones, the same at
// each update.
#include <cstdio>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "optim/optimizer.h"
#include "programs.h"
#include "workloads.h"

namespace autotrain::bench {
namespace {

// One optimizer, with parameters of its own.
class Side {
 public:
  Side(const std::string& workload, const std::string& name) : task_(make_workload(workload).task) {
    OptimizerRecipe recipe = plain_recipe().optimizer;
    recipe.algorithm.name = name;
    recipe.weight_decay = 0.01;
    std::vector<NamedTensor> parameters = trainable_parameters(task_->module());
    for (const NamedTensor& parameter : parameters) {
      weights_ += parameter.tensor.numel();
      gradients_.push_back(torch::randn_like(parameter.tensor).mul_(1e-3));
    }
    optimizer_ = make_optimizer(recipe, {std::move(parameters)});
  }

  int64_t weights() const { return weights_; }

  double updates_per_second(double seconds) {
    update();  // warms caches that the other sides have evicted
    double spent = 0;
    int64_t updates = 0;
    for (; spent < seconds; ++updates) spent += update();
    return static_cast<double>(updates) / spent;
  }

 private:
  // Seconds of one update. Optimizers may change the gradients, which are written anew before, as a backward
  // pass does.
  double update() {
    for (size_t i = 0; i < gradients_.size(); ++i) {
      torch::Tensor& gradient = optimizer_->parameters()[i].tensor.mutable_grad();
      if (!gradient.defined()) gradient = torch::empty_like(gradients_[i]);
      gradient.copy_(gradients_[i]);
    }
    const Stopwatch watch;
    optimizer_->apply({.lr = 1e-6, .grad_scale = torch::full({}, 64.0F), .found_inf = torch::zeros({})});
    return watch.seconds();
  }

  std::unique_ptr<Task> task_;
  std::vector<torch::Tensor> gradients_;
  std::unique_ptr<Optimizer> optimizer_;
  int64_t weights_ = 0;
};

}  // namespace

int optimizer_turns(int argc, char** argv) {
  const std::string workload = argument(argc, argv, "workload", "mlp");
  std::map<std::string, Side> sides;
  std::string name;
  for (double seconds = 0; std::cin >> name >> seconds;) {
    Side& side = sides.try_emplace(name, workload, name).first->second;
    const nlohmann::ordered_json line = {{"side", name},
                                         {"weights", side.weights()},
                                         {"updates_per_second", side.updates_per_second(seconds)}};
    std::printf("%s\n", line.dump().c_str());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace autotrain::bench
