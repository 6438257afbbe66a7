#pragma once

#include <torch/types.h>

#include <functional>
#include <memory>

namespace autotrain {

/// Copies bytes between a device and main memory, beside what the device computes.
class HostMover {
 public:
  /// Bytes that are on their way back.
  struct Arrival {
    torch::Tensor bytes;          ///< [n] uint8 on the device
    std::function<void()> await;  ///< has what the calling thread launches from now on wait for them
  };

  virtual ~HostMover() = default;

  /// The device whose tensors it moves.
  virtual torch::Device device() const = 0;

  /// Begins to copy what is there once all that was launched has been computed. The device's memory may be
  /// let go of at once: who gets it next waits for the copy.
  /// @param bytes [n] uint8 on the device. @return [n] uint8 in main memory, for `to_device` alone to read.
  virtual torch::Tensor to_host(const torch::Tensor& bytes) = 0;

  /// Begins to copy back what `to_host` gave.
  virtual Arrival to_device(const torch::Tensor& host) = 0;
};

/// One that copies on a stream of its own, from and to pinned memory; null for a CPU, which computes in main
/// memory.
std::shared_ptr<HostMover> host_mover(torch::Device device);

}  // namespace autotrain
