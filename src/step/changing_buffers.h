#pragma once

#include <torch/nn/module.h>

#include <vector>

#include "base/named_tensor.h"

namespace autotrain {

/// A copy of the buffers that a module's forward may change, such as running statistics, to put back
/// when what the forward was for did not happen.
class ChangingBuffers {
 public:
  /// `module` must outlive this object.
  explicit ChangingBuffers(const torch::nn::Module& module) : module_(module) {}

  /// Copies the buffers as they are now. The first call allocates the copies.
  void save();

  /// Puts the buffers back to the last `save`. Without one, nothing.
  void restore();

  /// After a forward in training mode: stops copying large buffers that it left as they were (masks,
  /// tables). Small ones are always copied.
  void forget_constants();

 private:
  const torch::nn::Module& module_;
  std::vector<torch::Tensor> live_;
  std::vector<torch::Tensor> copies_;
  bool saved_ = false;
  bool constants_forgotten_ = false;
};

}  // namespace autotrain
