#pragma once

#include <torch/nn/module.h>

#include <vector>

namespace autotrain {

/// A copy of a module's buffers, which its forward may change (running statistics, queues), to put back
/// when what the forward was for did not happen. All of them: which ones change cannot be told, since
/// batch normalisation writes its statistics without moving their version counter.
class ChangingBuffers {
 public:
  /// `module` must outlive this object.
  explicit ChangingBuffers(const torch::nn::Module& module) : module_(module) {}

  /// Copies the buffers as they are now. The first call allocates the copies.
  void save();

  /// Puts the buffers back to the last `save`. Without one, nothing.
  void restore();

  /// The same where `keep` is false, without waiting for the device.
  /// @param keep scalar bool on the buffers' device.
  void restore_unless(const torch::Tensor& keep);

 private:
  const torch::nn::Module& module_;
  std::vector<torch::Tensor> live_;
  std::vector<torch::Tensor> copies_;
  bool saved_ = false;
};

}  // namespace autotrain
