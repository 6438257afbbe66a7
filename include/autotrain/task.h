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
#include "autotrain/named_tensor.h"
#include "autotrain/update_info.h"

namespace autotrain {

/// Parts of a loss at most.
inline constexpr int64_t kMostLossParts = 16;

/// What a micro-batch adds to an update's loss: the update minimises Σ sums ÷ Σ weights over all its
/// micro-batches and ranks, however they were cut.
struct LossTerms {
  torch::Tensor sum = {};     ///< scalar with gradient: the *sum* of the losses, added up in float32 or wider
  torch::Tensor weight = {};  ///< scalar without gradient: samples, tokens, Σ class weights

  /// What is reported beside the loss, such as what it is made of (reconstruction, divergence; one for each
  /// head): scalar sums, each divided by Σ weights as the loss is. The same names at every call,
  /// `kMostLossParts` at most. They have no part in the gradient.
  std::vector<NamedTensor> parts = {};
};

/// What a batch adds to an evaluation: to the loss, and to each metric, the same ones in the same
/// order for every batch.
struct EvaluationTerms {
  LossTerms loss;
  std::vector<Measured> metrics = {};
};

/// The gradients of an update, computed when they are first asked for: who does not ask pays nothing.
class Gradients {
 public:
  virtual ~Gradients() = default;

  /// The gradient of the mean loss over all micro-batches, lanes and ranks, of every parameter that has one,
  /// in the model's order: its name, and a tensor of its shape, float32, to be changed in place. Before the
  /// penalty, the norm and clipping. Not finite where the update is about to be skipped.
  virtual const std::vector<NamedTensor>& all() = 0;
};

/// The passes of an update, for a task that makes them itself: with several ranks or `execution.lanes` those
/// of one lane; of a task that compares samples (`splittable` is false) those of all lanes of this rank,
/// which may have none. Gradients add up in the parameters, in whatever parts and however often they are
/// asked for, as those of Σ sums; the update divides them by Σ weights.
class Passes {
 public:
  virtual ~Passes() = default;

  /// Its micro-batches, in order.
  virtual const std::vector<Batch>& batches() const = 0;

  /// From here on random numbers are those of the i-th micro-batch: a second forward pass draws the same.
  virtual void seed(size_t i) = 0;

  /// Adds the gradient of a scalar to those of the parameters. In fp16 it is scaled, as those of losses are.
  /// @param keep_graph the graph is used again.
  virtual void backward(const torch::Tensor& sum, bool keep_graph = false) = 0;

  /// Likewise, of what has the given gradient for its outputs. @param gradient of the shape of `outputs`.
  virtual void backward(const torch::Tensor& outputs, const torch::Tensor& gradient) = 0;
};

/// A module together with how a batch becomes a loss and metrics. All tensors are on the run's
/// device; forward passes run under the run's autocast. Called from one thread. docs/embedding.md draws the
/// order of the calls.
class Task {
 public:
  virtual ~Task() = default;

  /// What is trained. The same object at every call; its parameters are float32.
  virtual torch::nn::Module& module() = 0;

  /// Forward and loss of one micro-batch. Must not call backward.
  virtual LossTerms loss(const Batch& batch) = 0;

  /// Loss and metrics without gradients, in evaluation mode. Where the loss itself differentiates, as that of
  /// a differential equation does, it is called with them.
  virtual EvaluationTerms evaluate(const Batch& batch) { return {loss(batch), {}}; }

  /// A penalty on the parameters, added to the mean loss once an update: a scalar with gradient, or
  /// undefined for none. It must not depend on the batch.
  virtual torch::Tensor penalty() { return {}; }

  /// Whether losses of samples are independent given the parameters, so that a batch may be cut into
  /// micro-batches. False for losses that mix samples (contrastive, expert balancing): such a task is
  /// never accumulated.
  virtual bool splittable() const { return true; }

  /// Whether the task makes the passes of an update itself, by `passes` in the place of `loss`: for losses
  /// over the whole batch in pieces (`autotrain/two_passes.h`), several backward passes, and what is carried
  /// from one micro-batch to the next. All micro-batches of an update are on the device at once. Asked once.
  virtual bool makes_passes() const { return false; }

  /// Forward and backward passes, under the run's autocast. What it returns has no gradient: Σ sums, to be
  /// reported, and Σ weights. `loss` is then for evaluations alone.
  virtual LossTerms passes(Passes& passes) {
    (void)passes;
    return {};
  }

  /// Whether batches say which samples they hold (Batch::indices, Batch::keys): for random numbers that do
  /// not depend on how an update is cut, and for what is remembered of a sample. Asked once.
  virtual bool names_samples() const { return false; }

  /// What the task keeps beside the module from one update to the next (queues, averages, counters): the same
  /// tensors at every call, on any device, changed in place, alike on all ranks. Saved in checkpoints and
  /// resumed with the same bits; put back after trials, skipped updates and windows that are run again.
  virtual std::vector<NamedTensor> state() { return {}; }

  /// Before the first forward pass of an update; again where its window is run again, everything put back.
  /// Also, as of a trial, for the last update before an evaluation that comes at the begin of a resume, and
  /// where a session ends.
  /// On a GPU the kernels of a task that overrides it are launched one by one: a recording would go on doing
  /// what was decided when it was made.
  virtual void begin_update(const UpdateInfo& info) {
    (void)info;
    idle_begin_update_ = true;
  }

  /// When all backward passes of an update are made: gradients may be looked at and changed. On several ranks
  /// all have the same ones, and must change them alike.
  virtual void before_step(const UpdateInfo& info, Gradients& gradients) { (void)info, (void)gradients; }

  /// When an update has changed the parameters, before any other pass, evaluation, checkpoint or callback;
  /// not for one that is skipped, and not in a trial. What it throws ends the run at the last checkpoint.
  virtual void after_step(const UpdateInfo& info) {
    (void)info;
    idle_after_step_ = true;
  }

  /// Whether `begin_update` was called and is not overridden: nothing of an update is then decided anew, so
  /// that its kernels may be recorded.
  virtual bool idle_begin_update() const { return idle_begin_update_; }

  /// Whether `after_step` was called and is not overridden: nobody then waits for an update to end.
  virtual bool idle_after_step() const { return idle_after_step_; }

 private:
  bool idle_begin_update_ = false;
  bool idle_after_step_ = false;
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
