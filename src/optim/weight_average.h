#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <optional>
#include <vector>

#include "autotrain/named_tensor.h"

namespace autotrain {

/// What a run averages of a module: the parameters that are trained, and with them the buffers of floating
/// point that are no large constants, such as running statistics, for averaged weights with the statistics of
/// others predict badly. Integers are not averaged, nor what is not finite (masks).
std::vector<NamedTensor> averaged_parts(const torch::nn::Module& module);

/// The exponential moving average of parameters and buffers (Polyak and Juditsky 1992, in its exponential
/// form): after each applied update, average ← average + (1 − d)·(parameter − average), with d = 2^(−E ÷ h)
/// for E samples per update and a half-life of h samples, so that it means the same at any E.
///
/// Starts as the initial parameters. All state is allocated at construction.
class WeightAverage {
 public:
  /// None: every operation does nothing.
  WeightAverage() = default;

  /// @param parameters and buffers: any tensors of floating point. @param half_life_samples > 0.
  WeightAverage(std::vector<NamedTensor> parameters, double half_life_samples);

  bool active() const { return !parameters_.empty(); }

  /// Samples that an applied update stands for from now on.
  void set_update_samples(int64_t samples);

  /// 1 − d.
  double share() const { return 1 - keep_; }

  /// What `update` takes: 1 − d, or 0 where `skipped` (scalar float32, 1 or 0) says so. Scalar float32 on the
  /// parameters' device; undefined when not active.
  torch::Tensor step_for(const torch::Tensor& skipped) const;

  /// Moves the average by `step`. Allocates nothing and does not wait for the device; on a GPU a few kernels
  /// move all.
  void update(const torch::Tensor& step);

  /// Whether updates wait for `catch_up` from now on: a task may move the weights before they are averaged.
  void wait(bool yes) { waits_ = yes; }

  /// Makes the update that waits, if any.
  void catch_up();

  /// The averages are the parameters as they are now.
  void restart();

  /// Parameters and averages change places: twice is as before. Copies nothing.
  void swap();

  /// The live averages under their parameters' names. Precondition: not swapped.
  std::vector<NamedTensor> state() const;

  /// What they are averages of, in the same order.
  const std::vector<NamedTensor>& live() const { return parameters_; }

 private:
  void move(const torch::Tensor& step);

  std::vector<NamedTensor> parameters_;
  std::vector<torch::Tensor> averages_;
  double half_life_samples_ = 0;
  double keep_ = 1;          // d
  torch::Tensor full_step_;  // 1 − d: scalar float32, as are
  torch::Tensor minus_step_;
  bool waits_ = false;
  torch::Tensor waiting_;  // a step; undefined: none waits
};

/// average += step × (weight − average) for each pair of a list, by few kernels. To rounding: `lerp_` rounds
/// otherwise. @param minus_step −step: scalar float32 where the tensors are.
void lerp_together(at::TensorList averages, at::TensorList weights, const torch::Tensor& minus_step);

/// Parameters are their averages until the scope ends.
class AveragedWeights {
 public:
  explicit AveragedWeights(WeightAverage& average) : average_(average) { average_.swap(); }
  ~AveragedWeights() { average_.swap(); }
  AveragedWeights(const AveragedWeights&) = delete;
  AveragedWeights& operator=(const AveragedWeights&) = delete;

 private:
  WeightAverage& average_;
};

}  // namespace autotrain
