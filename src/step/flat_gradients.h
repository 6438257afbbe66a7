#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "base/flat_layout.h"
#include "step/lane_sum.h"

namespace autotrain {

/// One buffer that holds the gradients of all parameters for as long as it lives, so that they have the same
/// addresses at every update and can be read or sent as one tensor; for a window of several lanes some more,
/// in which lanes are accumulated apart.
///
/// Backward adds to what is there. Parameters that a window did not reach have no gradient when it ends, as
/// without the buffer: an optimizer that met zeros instead would go on decaying their moments.
class FlatGradients {
 public:
  /// Allocates. The parameters must have no gradients, and outlive this object.
  /// @param layout of parameters, all on one device.
  explicit FlatGradients(FlatLayout layout, int64_t lanes = 1);
  ~FlatGradients();
  FlatGradients(const FlatGradients&) = delete;
  FlatGradients& operator=(const FlatGradients&) = delete;

  /// Begins a window: each parameter's gradient is its part of the first lane's buffer, which is zero.
  /// Allocates no memory on the device.
  void open();

  /// Ends a lane. After the last one the gradients are the sum of all.
  void end_lane();

  /// A digit for every parameter: 1 where a backward pass has reached it since `open`.
  std::string reached() const;

  /// Takes those for reached that other ranks have reached.
  void add_reached(const std::string& elsewhere);

  /// From now on only passes to come have reached any.
  void forget_reached();

  /// Takes this parameter for one that none has reached.
  void forget_reached(size_t parameter) { parts_[parameter].reached = false; }

  /// Takes the gradients away from the parameters that no backward pass has reached since `open`.
  void leave_reached();

  const FlatLayout& layout() const { return layout_; }

  /// The gradients after the last lane; zero between them. [layout().elements()] float32 on the device.
  const torch::Tensor& flat() const { return lanes_.buffers()[0]; }

 private:
  struct Part {
    torch::Tensor parameter;
    std::vector<torch::Tensor> gradients;  ///< in each buffer
    unsigned hook = 0;
    bool reached = false;  ///< by a backward pass since `open`
  };
  void attach();

  FlatLayout layout_;
  LaneSum lanes_;
  std::vector<Part> parts_;
};

}  // namespace autotrain
