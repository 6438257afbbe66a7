#pragma once

#include <ATen/core/ivalue.h>
#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "autotrain/operator_kind.h"

namespace autotrain {

/// The tensors among the arguments or the results of a call, also those in lists; undefined ones are left
/// out.
template <class Values>
std::vector<torch::Tensor> tensors_of(const Values& values) {
  std::vector<torch::Tensor> tensors;
  for (const c10::IValue& value : values) {
    if (value.isTensor() && value.toTensor().defined()) tensors.push_back(value.toTensor());
    if (!value.isTensorList()) continue;
    for (const torch::Tensor& tensor : value.toTensorVector()) tensors.push_back(tensor);
  }
  return tensors;
}

/// The products that a call of an operator makes.
struct Products {
  double flops = 0;             ///< a multiplication and an addition are two
  std::vector<size_t> factors;  ///< which operands are multiplied
  /// Over which dimension of each factor a product sums; nothing: all behind its first one, or none is known.
  std::vector<std::optional<int64_t>> summed = {};
};

/// How the products of an operator are counted.
struct ProductRule {
  std::string_view name;  ///< "aten::addmm"
  OperatorKind kind;
  size_t operands;  ///< that the rule looks at: with fewer, nothing is known of a call
  Products (*products)(const std::vector<torch::Tensor>& inputs, const std::vector<torch::Tensor>& outputs);
};

/// The rule for a call; null where no product is counted.
/// @param name of the operator. @param inputs its arguments, which tell transposed convolutions.
const ProductRule* product_rule(std::string_view name, c10::ArrayRef<const c10::IValue> inputs);

}  // namespace autotrain
