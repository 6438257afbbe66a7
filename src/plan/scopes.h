#pragma once

#include <torch/nn/module.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "optim/scaler.h"
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

/// The buffers that a forward really changes, such as running statistics.
class BufferScope {
 public:
  /// @param changing names of the buffers that are known to change; unset: all are saved, and this
  /// scope finds out which ones did.
  BufferScope(torch::nn::Module& module, std::optional<std::set<std::string>>& changing);
  ~BufferScope();
  BufferScope(const BufferScope&) = delete;
  BufferScope& operator=(const BufferScope&) = delete;

 private:
  struct Saved {
    std::string name;
    torch::Tensor live;
    torch::Tensor copy;
  };

  std::optional<std::set<std::string>>& changing_;
  std::vector<Saved> saved_;
};

}  // namespace autotrain
