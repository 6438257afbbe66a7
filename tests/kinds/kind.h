#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <torch/nn/modules/container/functional.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "autotrain/random.h"
#include "autotrain/trainer.h"

// Kinds of research: each a short program for the Trainer, and a loop that is written by hand to hold it
// against.
namespace kinds {

using namespace autotrain;

inline constexpr int64_t kBatch = 32, kUpdates = 10;

/// What a program brings. Made anew for every run, always with the same first weights.
struct Program {
  std::unique_ptr<Task> task = {};
  std::shared_ptr<Dataset> data = {};
  std::vector<TorchOptimizer> optimizers = {};
  Recipe recipe = plain_recipe("adam", 0.01);

  /// Of `kBatch` samples and `kUpdates` updates: no decay, clipping, warm-up or schedule.
  static Recipe plain_recipe(const std::string& optimizer, double lr);

  /// The samples of an update, counted from 1, as the run gets them.
  Batch batch(int64_t update) const;

  torch::nn::Module& module() const { return task->module(); }
};

/// A kind: its program, and what a loop of one's own makes of another one like it.
struct Kind {
  std::string name;
  const char* file;  ///< in which it stands between lines that begin with "// program" and "// by hand"
  std::function<Program()> make;
  std::function<void(Program& program)> by_hand;
  bool ranks = true;  ///< whether several ranks make it
};

/// Makes it known to the table.
struct Register {
  explicit Register(Kind kind);
};

const std::vector<Kind>& all();

// ------------------------------------------------------------------ what programs share

using Layers = std::shared_ptr<torch::nn::SequentialImpl>;

/// Linear layers of these widths with tanh between them.
inline Layers layers(std::vector<int64_t> widths) {
  auto made = std::make_shared<torch::nn::SequentialImpl>();
  for (size_t i = 0; i + 1 < widths.size(); ++i) {
    if (i > 0) made->push_back(torch::nn::Functional(torch::tanh));
    made->push_back(torch::nn::Linear(widths[i], widths[i + 1]));
  }
  return made;
}

/// A module that holds others.
struct Parts : torch::nn::Module {
  Layers add(const std::string& name, Layers part) { return register_module(name, std::move(part)); }
};

/// A task over such a module.
struct PartsTask : Task {
  torch::nn::Module& module() override { return *parts; }
  Layers add(const std::string& name, Layers part) { return parts->add(name, std::move(part)); }

  std::shared_ptr<Parts> parts = std::make_shared<Parts>();
};

/// Random numbers, the same every time.
inline torch::Tensor numbers(std::vector<int64_t> sizes, uint64_t seed = 4) {
  return at::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(seed));
}

/// Points of which the class is the largest coordinate.
inline std::shared_ptr<Dataset> points(int64_t features = 4) {
  const torch::Tensor inputs = numbers({320, features});
  return std::make_shared<TensorDataset>(inputs, inputs.argmax(1));
}

inline torch::Tensor count(const Batch& batch) {
  return torch::tensor(static_cast<double>(batch.samples));
}

/// Updates of a hand loop whose optimizer steps once for each batch.
/// @param loss of a batch, its mean.
inline void train(const Program& program, torch::optim::Optimizer& optimizer,
                  const std::function<torch::Tensor(const Batch& batch)>& loss) {
  for (int64_t update = 1; update <= kUpdates; ++update) {
    optimizer.zero_grad();
    loss(program.batch(update)).backward();
    optimizer.step();
  }
}

}  // namespace kinds
