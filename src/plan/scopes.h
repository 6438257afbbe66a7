#pragma once

#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "autotrain/log.h"
#include "autotrain/named_tensor.h"
#include "step/changing_buffers.h"
#include "step/update_step.h"

namespace autotrain {

// A trial borrows state of the run. Each scope here puts one kind of it back when it ends, on every way out.
// Putting back needs no memory; it fails only with the device itself, and the error under way then says why.

template <class Action>
void put_back(Action action) {
  try {
    action();
  } catch (const std::exception& error) {
    log::error("plan", error.what());
  }
}

/// What tensors hold, bit for bit.
class TensorScope {
 public:
  /// @param copies_on the device of the copies; nothing: each beside its tensor.
  explicit TensorScope(std::vector<NamedTensor> tensors, std::optional<torch::Device> copies_on = {});
  ~TensorScope();
  TensorScope(const TensorScope&) = delete;
  TensorScope& operator=(const TensorScope&) = delete;

 private:
  std::vector<NamedTensor> tensors_;
  std::vector<torch::Tensor> copies_;
};

/// The gradients and sums of a window: dropped at both ends.
class WindowScope {
 public:
  explicit WindowScope(UpdateStep& step) : step_(step) { step_.abandon(); }
  ~WindowScope() {
    put_back([&] { step_.abandon(); });
  }
  WindowScope(const WindowScope&) = delete;
  WindowScope& operator=(const WindowScope&) = delete;

 private:
  UpdateStep& step_;
};

/// The largest inputs that updates have.
class LargestInputsScope {
 public:
  explicit LargestInputsScope(UpdateStep& step) : step_(step) { step_.take_largest_inputs(true); }
  ~LargestInputsScope() { step_.take_largest_inputs(false); }
  LargestInputsScope(const LargestInputsScope&) = delete;
  LargestInputsScope& operator=(const LargestInputsScope&) = delete;

 private:
  UpdateStep& step_;
};

/// Whatever the step was made to record in this scope: dropped when it ends.
class RecordingScope {
 public:
  explicit RecordingScope(UpdateStep& step) : step_(step) {}
  ~RecordingScope() {
    put_back([&] { step_.stop_recording(); });
  }
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;

 private:
  UpdateStep& step_;
};

/// The mode, training or evaluation, of each part of a module: as it was when the scope ends.
class ModeScope {
 public:
  explicit ModeScope(torch::nn::Module& module);
  ~ModeScope();
  ModeScope(const ModeScope&) = delete;
  ModeScope& operator=(const ModeScope&) = delete;

 private:
  torch::nn::Module& module_;
  const bool training_;
  std::vector<std::pair<std::shared_ptr<torch::nn::Module>, bool>>
      modes_;  // which a program may replace meanwhile
};

/// Evaluation mode until the scope ends.
class EvaluationMode {
 public:
  explicit EvaluationMode(torch::nn::Module& module) : before_(module) { module.eval(); }

 private:
  ModeScope before_;
};

/// Puts a module in training mode. Parts that are in evaluation mode within one that trains stay so: a
/// teacher, or a batch normalisation that is frozen.
void set_training(torch::nn::Module& module);

/// Whatever forward passes in this scope change: running statistics, frozen parameters, the task's state.
class BufferScope {
 public:
  explicit BufferScope(Task& task) : buffers_(task) {
    buffers_.save();
    watch_.emplace(buffers_);
  }
  ~BufferScope() {
    watch_.reset();
    put_back([&] { buffers_.restore(); });
  }
  BufferScope(const BufferScope&) = delete;
  BufferScope& operator=(const BufferScope&) = delete;

 private:
  ChangingBuffers buffers_;
  std::optional<ChangingBuffers::Watch> watch_;
};

}  // namespace autotrain
