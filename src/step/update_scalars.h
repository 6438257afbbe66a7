#pragma once

#include <torch/types.h>

#include <optional>

namespace autotrain {

// The few numbers that an update is made of. A GPU takes as long to launch a kernel for one of them as for
// ten, so they are computed in vectors; the bits are those of one after the other.

/// By what the gradients of a window are larger than those of its mean loss. Scalars float64 on the device.
struct GradientScale {
  /// @param loss_scale scalar float32; @param loss_factor StepOptions::loss_factor.
  GradientScale(const torch::Tensor& loss_scale, double loss_factor, const torch::Tensor& weight_sum);

  torch::Tensor scale;    ///< the loss scale
  torch::Tensor of_sum;   ///< × the factor: what the gradients of the *sum* are multiplied by
  torch::Tensor of_mean;  ///< × Σ weights
};

/// The sums of a window and the norms of its gradient. Scalars float64 on the device.
struct WindowFigures {
  torch::Tensor loss_sum, weight_sum;
  torch::Tensor first_norms;           ///< [3]: as WindowNorms begins, still scaled
  torch::Tensor first_preconditioned;  ///< likewise, the squares in the optimizer's metric
  torch::Tensor scaled_norm;           ///< of the gradients as they are
  torch::Tensor own_norm = {};         ///< of the true gradient without the penalty; undefined: there is none
  torch::Tensor preconditioned = {};   ///< squared, of the true gradient; undefined: nobody asked
  torch::Tensor buffers_nought = {};   ///< 0, or not a number where buffers are not finite; undefined: 0
};

/// What an update goes by.
struct UpdateScalars {
  torch::Tensor figures;     ///< [9] float64, as PendingUpdate wants them; [11] with preconditioned norms
  torch::Tensor grad_scale;  ///< scalar float32: gradients are divided by it
  torch::Tensor
      found_inf;  ///< scalar float32: 1 where loss, gradient or a buffer is not finite (no weight), else 0
  torch::Tensor skipped;  ///< scalar float32: 1 where nothing is applied, else 0
  torch::Tensor applies;  ///< scalar bool: the opposite
};

/// Does not wait for the device.
/// @param clip_norm of the true gradient; nothing: it is not clipped.
/// @param force_skip nothing is applied, whatever the gradient is.
UpdateScalars update_scalars(const WindowFigures& window, const GradientScale& scale,
                             const std::optional<double>& clip_norm, bool force_skip);

}  // namespace autotrain
