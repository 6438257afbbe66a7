#pragma once

#include <string>
#include <vector>

#include "autotrain/operator_counts.h"

namespace autotrain {

/// A parameter among the operands of an operator that was counted.
struct WeightUse {
  std::string name = {};                     ///< its first, where it has several
  OperatorKind kind = OperatorKind::kOther;  ///< of the operator that multiplies by it; else kOther
  int64_t bytes = 0;  ///< that are counted as read: of a table of which rows are looked up, none
  /// Products sum over its first dimension, as x @ W and addmm do with a weight [in, out], and a transposed
  /// convolution with [in, out, ...]. Otherwise they sum over what stands behind it.
  bool inputs_first = false;
};

struct WeightCount {
  ForwardCount counts = {};
  std::vector<WeightUse> uses = {};  ///< in the order of the operators
};

/// As count_forward, with what became of each weight.
WeightCount count_weights(const torch::nn::Module& module, const std::function<void()>& forward,
                          const std::function<void()>& wait = nullptr);

}  // namespace autotrain
