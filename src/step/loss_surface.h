#pragma once

#include <torch/types.h>

#include <functional>
#include <vector>

#include "autotrain/task.h"

namespace autotrain {

/// The mean loss of the same samples, Σ sums ÷ Σ weights, as a function of the parameters that learn, with
/// its first and second derivatives. Penalties are left out. Vectors are flat: the parameters' elements one
/// behind the other, [size()] in their type and on their device.
///
/// The module computes in the mode that it is in; in evaluation mode, so that statistics are fixed, nothing
/// is drawn, and the surface is one.
class LossSurface {
 public:
  using Use = std::function<void(const Batch&)>;

  /// @param each_batch calls its argument with all samples, in batches on the module's device: the same ones
  /// at every call. Memory is that of one batch, so smaller ones need less. Both must outlive the surface.
  LossSurface(Task& task, std::function<void(const Use&)> each_batch);

  int64_t size() const { return size_; }
  double loss();
  torch::Tensor gradient();

  /// The Hessian times a vector: the gradient of gradient · direction (Pearlmutter 1994), exact up to
  /// rounding. Attention is computed by kernels that can be differentiated twice.
  /// @throws std::exception as autograd does, when an operator has no second derivative, and when the loss or
  /// its gradient depends on the parameters in a way that autograd does not see.
  torch::Tensor times_hessian(const torch::Tensor& direction);

  /// The parameters, as a vector.
  torch::Tensor weights() const;

  /// A random direction as long as the weights, filter by filter: each row of a parameter has the norm of
  /// that row, so that a step along it is relative and does not depend on how weights are scaled (Li et al.
  /// 2018, arXiv:1712.09913, section 4). Parameters of one dimension, biases and normalisation weights, stay
  /// as they are, as they do there.
  torch::Tensor relative_direction(uint64_t seed) const;

  /// The loss where the weights are w + step · direction. The weights are put back to the bit.
  double loss_along(const torch::Tensor& direction, double step);

 private:
  std::vector<torch::Tensor> parts_of(const torch::Tensor& flat) const;
  torch::Tensor flat(const std::vector<torch::Tensor>& parts) const;

  Task& task_;
  const std::function<void(const Use&)> each_batch_;
  std::vector<torch::Tensor> parameters_;
  int64_t size_ = 0;
};

/// An estimate of a symmetric operator's eigenvalue: one lies within `error` of it.
struct Eigenvalue {
  double value = 0;
  double error = 0;
  int64_t products = 0;  ///< of the operator with vectors
};

struct LanczosOptions {
  int64_t most_steps = 30;  ///< each keeps a vector
  double tolerance = 1e-3;  ///< of the error, relative
  uint64_t seed = 1;        ///< of the first vector
};

/// The largest eigenvalue, by the method of Lanczos (1950) with full reorthogonalisation; the error is the
/// residual of the Ritz pair (Parlett 1980, section 13.2). NaN when a product is not finite.
/// @param multiply the operator times a vector [n].
/// @param like a vector [n], of whose type and device all are.
Eigenvalue largest_eigenvalue(const std::function<torch::Tensor(const torch::Tensor&)>& multiply,
                              const torch::Tensor& like, LanczosOptions options = {});

}  // namespace autotrain
