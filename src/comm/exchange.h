#pragma once

#include <torch/types.h>

#include <memory>
#include <vector>

#include "comm/place.h"

namespace autotrain {

/// Part `part` of `parts` equal ones of a tensor [parts · n], sharing its memory.
inline torch::Tensor part_of(const torch::Tensor& flat, int64_t part, int64_t parts) {
  const int64_t size = flat.numel() / parts;
  return flat.narrow(0, part * size, size);
}

/// Passes tensors between ranks. All ranks make the same calls, in the same order and with the same sizes.
class Exchange {
 public:
  virtual ~Exchange() = default;

  /// Part k of `send` goes to rank k, and what rank k sent here becomes part k of `receive`. Both [world ·
  /// n], contiguous, of one type and on one device.
  virtual void to_all(const torch::Tensor& receive, const torch::Tensor& send) = 0;

  /// Part k of `flat` [world · n] is rank k's: afterwards every rank has every part.
  virtual void spread(const torch::Tensor& flat) = 0;

  /// Afterwards every rank's `tensor` holds what rank 0's holds. Contiguous, of any type.
  virtual void copy_from_first(const torch::Tensor& tensor) = 0;
};

/// The exchanges of `world` ranks that are threads of this process: for tests, without sockets. A rank that
/// does not come leaves the others waiting.
std::vector<std::unique_ptr<Exchange>> make_thread_exchanges(int64_t world);

}  // namespace autotrain
