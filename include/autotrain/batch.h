#pragma once

#include <torch/types.h>

#include <cstdint>

namespace autotrain {

/// Some samples, ready for a forward pass.
struct Batch {
  torch::Tensor inputs = {};   ///< [n, …], any dtype
  torch::Tensor targets = {};  ///< [n, …]; undefined when the task needs none
  int64_t samples = 0;         ///< n

  /// The same samples on `device`. From pinned memory to a GPU the copy is asynchronous.
  Batch to(torch::Device device) const;
};

}  // namespace autotrain
