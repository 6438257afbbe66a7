#pragma once

#include <exception>
#include <optional>
#include <vector>

#include "autotrain/log.h"
#include "base/named_tensor.h"
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

/// Evaluation mode until the scope ends; training mode after it.
class EvaluationMode {
 public:
  explicit EvaluationMode(torch::nn::Module& module) : module_(module) { module_.eval(); }
  ~EvaluationMode() { module_.train(); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  torch::nn::Module& module_;
};

/// The buffers that forward passes in this scope change, such as running statistics.
class BufferScope {
 public:
  explicit BufferScope(const torch::nn::Module& module) : buffers_(module) {
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
