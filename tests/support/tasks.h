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

/// `count` random vectors of 6; the label is the largest of the first four.
inline TensorDataset small_data(int64_t count, uint64_t seed = 3) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const torch::Tensor inputs = at::randn({count, 6}, generator);
  return TensorDataset(inputs, inputs.slice(1, 0, 4).argmax(1));
}

}  // namespace autotrain::test
