#pragma once

#include <torch/types.h>

#include <vector>

#include "base/named_tensor.h"

namespace autotrain {

/// One buffer that holds the gradients of all parameters for as long as it lives, so that they have the same
/// addresses at every update and can be read or sent as one tensor.
///
/// Backward adds to what is there. Parameters that a window did not reach have no gradient when it ends, as
/// without the buffer: an optimizer that met zeros instead would go on decaying their moments.
class FlatGradients {
 public:
  /// Allocates. The parameters must have no gradients, and outlive this object.
  explicit FlatGradients(const std::vector<NamedTensor>& parameters);
  ~FlatGradients();
  FlatGradients(const FlatGradients&) = delete;
  FlatGradients& operator=(const FlatGradients&) = delete;

  /// Zeroes the buffer and makes each parameter's gradient its part of it. Allocates no memory on the device.
  void open();

  /// Takes the gradients away from the parameters that no backward pass has reached since `open`.
  void leave_reached();

  /// All parts, each at a multiple of 64 bytes; zero between them. [elements] float32 on the device.
  const torch::Tensor& flat() const { return flat_; }

 private:
  struct Part {
    torch::Tensor parameter, gradient;
    unsigned hook = 0;
  };

  torch::Tensor flat_;
  std::vector<Part> parts_;
  std::vector<char> reached_;  // by the backward passes since `open`; not bool, whose elements share bytes
};

}  // namespace autotrain
