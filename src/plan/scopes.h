#pragma once

#include <vector>

#include "optim/scaler.h"
#include "step/changing_buffers.h"
#include "step/update_step.h"

namespace autotrain {

// What a trial borrows from the run, each put back when its scope ends, on every way out.

/// The scaler's scalars.
class ScalerScope {
 public:
  explicit ScalerScope(const GradScaler& scaler);
  ~ScalerScope();
  ScalerScope(const ScalerScope&) = delete;
  ScalerScope& operator=(const ScalerScope&) = delete;

 private:
  std::vector<NamedTensor> state_;
  std::vector<torch::Tensor> copies_;
};

/// The gradients and sums of a window: dropped at both ends.
class WindowScope {
 public:
  explicit WindowScope(UpdateStep& step) : step_(step) { step_.abandon(); }
  ~WindowScope() { step_.abandon(); }
  WindowScope(const WindowScope&) = delete;
  WindowScope& operator=(const WindowScope&) = delete;

 private:
  UpdateStep& step_;
};

/// The buffers that a forward may change, such as running statistics.
class BufferScope {
 public:
  explicit BufferScope(const torch::nn::Module& module) : buffers_(module) { buffers_.save(); }
  ~BufferScope() { buffers_.restore(); }
  BufferScope(const BufferScope&) = delete;
  BufferScope& operator=(const BufferScope&) = delete;

 private:
  ChangingBuffers buffers_;
};

}  // namespace autotrain
