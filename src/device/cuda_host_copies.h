#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "device/host_copies.h"

namespace autotrain {

/// Host memory whose pages stay where they are, so that a GPU copies into it by itself, several times as fast
/// as into plain memory.
class PinnedMemory {
 public:
  /// Takes tenths of a second for a gibibyte. @return null where the driver refuses it.
  static std::shared_ptr<PinnedMemory> get(int64_t bytes);

  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  PinnedMemory(char* data, int64_t bytes) : data_(data), bytes_(bytes) {}

  char* const data_;
  const int64_t bytes_;
};

/// Copies tensors of GPUs into memory that stays between calls.
class HostStaging {
 public:
  /// Queues the copies on the current stream of the current device and returns. Work that is queued later
  /// comes after them, so it may change the tensors. Where memory is refused, copies plainly.
  std::unique_ptr<HostCopies> copy(const std::vector<torch::Tensor>& tensors);

  /// Of host memory that it keeps.
  int64_t bytes() const { return memory_ ? memory_->bytes() : 0; }

 private:
  std::shared_ptr<PinnedMemory> memory_;
};

}  // namespace autotrain
