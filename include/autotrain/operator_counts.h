#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "autotrain/operator_kind.h"

namespace autotrain {

/// What one operator of a forward pass computes and moves if each operand is read once and each result
/// written once. A multiplication and an addition are two operations.
struct OperatorCount {
  std::string name = {};    ///< "aten::addmm"
  std::string module = {};  ///< that owns a weight among its operands, or the last such before it
  OperatorKind kind = OperatorKind::kOther;
  std::string shape = {};  ///< of the operands: "[64, 784] [784, 256]"
  double flops = 0;
  double backward_flops = 0;  ///< one more product for each operand whose gradient is asked for
  int64_t bytes = 0;          ///< weights included
  int64_t weight_bytes = 0;   ///< parameters of the module; the same at every batch size
  double seconds = 0;         ///< that the call took while it was observed

  /// Operations for each byte moved.
  double intensity() const { return bytes > 0 ? flops / static_cast<double>(bytes) : 0; }
};

struct ForwardCount {
  std::vector<OperatorCount> operators = {};  ///< in the order in which they ran; views and no-ops left out
  double seconds = 0;                         ///< of all, with what runs between them and observing them

  double flops() const;
  double backward_flops() const;
  int64_t bytes() const;
  int64_t weight_bytes() const;
};

/// Counts what `forward` runs on this thread, whoever wrote the module, and takes the time of each. Products
/// are found by the operators linear, matmul, mm, addmm, bmm, baddbmm, convolution,
/// scaled_dot_product_attention, mkldnn_rnn_layer and quantized linear, those of a backward pass by mm, bmm,
/// convolution_backward and attention's; other kernels that multiply matrices count as kOther.
/// @param module whose parameters are weights. Call `forward` with gradients enabled to have backward_flops.
/// @param wait for the device after each operator; times are those of starting them otherwise. Null: a CPU.
ForwardCount count_forward(const torch::nn::Module& module, const std::function<void()>& forward,
                           const std::function<void()>& wait = nullptr);

}  // namespace autotrain
