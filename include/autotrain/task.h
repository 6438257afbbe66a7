#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "autotrain/batch.h"
#include "autotrain/metrics.h"

namespace autotrain {

/// What a micro-batch adds to an update's loss: the update minimises Σ sums ÷ Σ weights over all its
/// micro-batches and ranks, however they were cut.
struct LossTerms {
  torch::Tensor sum = {};     ///< scalar float32 with gradient: the *sum* of the losses
  torch::Tensor weight = {};  ///< scalar without gradient: samples, tokens, Σ class weights
};

/// What a batch adds to an evaluation: to the loss, and to each metric, the same ones in the same
/// order for every batch.
struct EvaluationTerms {
  LossTerms loss;
  std::vector<Measured> metrics = {};
};

/// A module together with how a batch becomes a loss and metrics. All tensors are on the run's
/// device; forward passes run under the run's autocast. Called from one thread.
class Task {
 public:
  virtual ~Task() = default;

  /// What is trained. The same object at every call; its parameters are float32.
  virtual torch::nn::Module& module() = 0;

  /// Forward and loss of one micro-batch. Must not call backward.
  virtual LossTerms loss(const Batch& batch) = 0;

  /// Loss and metrics without gradients, in evaluation mode.
  virtual EvaluationTerms evaluate(const Batch& batch) { return {loss(batch), {}}; }

  /// A penalty on the parameters, added to the mean loss once an update: a scalar with gradient, or
  /// undefined for none. It must not depend on the batch.
  virtual torch::Tensor penalty() { return {}; }

  /// Whether losses of samples are independent given the parameters, so that a batch may be cut into
  /// micro-batches. False for losses that mix samples (contrastive, expert balancing): such a task is
  /// never accumulated.
  virtual bool splittable() const { return true; }
};

/// A loss and the metrics that go with it, of a prediction and a target.
struct Loss {
  std::function<LossTerms(const torch::Tensor& prediction, const torch::Tensor& target)> terms = {};
  PredictionMetrics metrics = {};
};

struct CrossEntropyOptions {
  double label_smoothing = 0;              ///< in [0, 1); not with focal_gamma
  int64_t ignore_index = -100;             ///< targets of this value count for nothing
  std::vector<double> class_weights = {};  ///< how much a target of each class counts; empty: 1
  double focal_gamma = 0;                  ///< exponent of the focal loss (Lin et al. 2017); 0: plain
};

/// prediction: [n, classes] or [n, length, classes] logits. target: [n] or [n, length] int64.
/// Weight: Σ class weights of the targets that are not ignored. Metrics, unless others are given: accuracy,
/// top5 (more than five classes), and perplexity for sequences.
Loss cross_entropy(CrossEntropyOptions options = {});

/// prediction: [n, labels] logits. target: [n, labels] of 0 and 1. Weight: elements. Metrics: label_accuracy
/// and macro_f1.
/// @param positive_weights how much a label that holds counts; empty: 1.
Loss binary_cross_entropy(std::vector<double> positive_weights = {});

/// prediction and target of one shape, any dtype; or target class indices, compared as one-hot
/// vectors. Weight: elements. Metric: mean_absolute_error.
Loss mean_squared_error();

/// The same, linear where prediction and target are further apart than `delta`.
Loss huber(double delta = 1);

using Forward = std::function<torch::Tensor(const torch::Tensor& inputs)>;

/// The task of a module that maps inputs to predictions.
std::unique_ptr<Task> make_supervised(std::shared_ptr<torch::nn::Module> module, Forward forward, Loss loss);

/// Of several inputs, say.
using BatchForward = std::function<torch::Tensor(const Batch& batch)>;

/// The task of a module that maps batches to predictions.
std::unique_ptr<Task> make_supervised_on_batches(std::shared_ptr<torch::nn::Module> module,
                                                 BatchForward forward, Loss loss);

/// For any module with `forward(Tensor) → Tensor`; `net` stays shared with the caller.
template <class Net>
std::unique_ptr<Task> supervised(std::shared_ptr<Net> net, Loss loss) {
  static_assert(std::is_base_of_v<torch::nn::Module, Net>, "net must be a torch::nn::Module");
  Net* const raw = net.get();
  return make_supervised(
      std::move(net), [raw](const torch::Tensor& inputs) { return raw->forward(inputs); }, std::move(loss));
}

}  // namespace autotrain
