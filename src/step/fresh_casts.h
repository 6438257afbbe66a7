#pragma once

#include <torch/nn/module.h>

#include <vector>

#include "step/operator_scope.h"
#include "step/operator_values.h"

namespace autotrain {

/// Lets code of a program's own move weights between two forward passes under one autocast, which keeps the
/// cast of each weight until it ends, whatever becomes of the weight: until the scope ends, casts are dropped
/// when an operation on this thread is about to write to a weight. Who moves none keeps them all.
class FreshCasts {
 public:
  /// `module` must outlive this object.
  explicit FreshCasts(const torch::nn::Module& module);

  /// Drops them where weights lie elsewhere than at the last look (`set_data`), which no operation tells.
  void look();

 private:
  friend class OperatorScope<FreshCasts, false>;
  void start(const at::RecordFunction& operation);

  const std::vector<torch::Tensor> weights_;
  std::vector<const void*> places_;
  WrittenArguments written_;
  OperatorScope<FreshCasts, false> scope_;
};

}  // namespace autotrain
