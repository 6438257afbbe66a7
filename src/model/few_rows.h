#pragma once

#include <torch/types.h>

namespace autotrain {

/// While it lives, this thread's linear layers take few rows as columns. A BLAS copies the weights into
/// blocks before it multiplies two to some sixteen rows by their transpose, which takes longer than reading
/// them; as the left operand of W · xᵀ they are read once. One row is taken as two equal columns: for a
/// matrix by a vector MKL uses one core on AMD's processors. Sums are added in another order.
class FewRowsScope {
 public:
  FewRowsScope();
  ~FewRowsScope();
  FewRowsScope(const FewRowsScope&) = delete;
  FewRowsScope& operator=(const FewRowsScope&) = delete;

 private:
  bool before_;
};

/// Whether this product is to be taken so: within such a scope, of few float32 rows on a CPU.
/// @param inputs [..., in]. @param weight [out, in].
bool takes_columns(const torch::Tensor& inputs, const torch::Tensor& weight);

/// inputs · weightᵀ + bias by way of columns. @param bias [out], or undefined. @return [..., out]
torch::Tensor linear_by_columns(const torch::Tensor& inputs, const torch::Tensor& weight,
                                const torch::Tensor& bias);

}  // namespace autotrain
