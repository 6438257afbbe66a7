#pragma once

#include <torch/types.h>

#include <memory>
#include <utility>
#include <vector>

namespace autotrain {

/// Copies of tensors in host memory, which may still be on their way. They lie in memory as the tensors do,
/// where these are dense.
class HostCopies {
 public:
  explicit HostCopies(std::vector<torch::Tensor> tensors) : tensors_(std::move(tensors)) {}
  virtual ~HostCopies() = default;
  HostCopies(const HostCopies&) = delete;
  HostCopies& operator=(const HostCopies&) = delete;

  /// On the CPU, in the order of what was copied; not to be read before `wait` has returned. Whoever holds
  /// one holds its memory.
  const std::vector<torch::Tensor>& tensors() const { return tensors_; }

  /// Until all have arrived, in any thread. @throws what the device says when they cannot.
  virtual void wait() {}

 private:
  std::vector<torch::Tensor> tensors_;
};

/// Copies in plain memory, made by the time it returns. @throws c10::Error when there is no room.
std::unique_ptr<HostCopies> copy_to_plain_memory(const std::vector<torch::Tensor>& tensors);

}  // namespace autotrain
