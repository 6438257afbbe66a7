#pragma once

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <memory>

#include "autotrain/data.h"
#include "autotrain/task.h"

namespace autotrain::test {

/// Two linear layers with something between them.
struct SmallNet : torch::nn::Module {
  enum class Middle { kNothing, kBatchNorm, kDropout, kMeanOfBatch };

  explicit SmallNet(Middle kind = Middle::kNothing, int64_t inputs = 6, int64_t hidden = 16,
                    int64_t classes = 4)
      : middle(kind) {
    first = register_module("first", torch::nn::Linear(inputs, hidden));
    if (middle == Middle::kBatchNorm) norm = register_module("norm", torch::nn::BatchNorm1d(hidden));
    if (middle == Middle::kDropout) dropout = register_module("dropout", torch::nn::Dropout(0.5));
    second = register_module("second", torch::nn::Linear(hidden, classes));
  }

  torch::Tensor forward(torch::Tensor x) {
    x = first->forward(x).tanh();
    if (middle == Middle::kBatchNorm) x = norm->forward(x);
    if (middle == Middle::kDropout) x = dropout->forward(x);
    if (middle == Middle::kMeanOfBatch) x = x - x.mean(0, true);
    return second->forward(x);
  }

  Middle middle;
  torch::nn::Linear first{nullptr}, second{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Dropout dropout{nullptr};
};

/// `count` random vectors of 6 with labels below 4.
inline TensorDataset small_data(int64_t count, uint64_t seed = 3) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return TensorDataset(at::randn({count, 6}, generator), at::randint(0, 4, {count}, generator));
}

}  // namespace autotrain::test
