#pragma once

#include <cstdint>
#include <vector>

#include "data/permutation.h"

namespace autotrain {

/// Consecutive samples of the stream.
struct Piece {
  int64_t position = 0;  ///< of the first sample in the stream
  int64_t samples = 0;
  bool operator==(const Piece&) const = default;
};

/// The endless sequence of samples: which sample of which epoch stands at a position.
class Stream {
 public:
  /// @param size samples in an epoch, ≥ 1. Without `shuffle` every epoch has the data set's order.
  Stream(uint64_t seed, int64_t size, bool shuffle);

  struct Draw {
    std::vector<int64_t> indices;
    std::vector<int64_t> epochs;
  };

  /// The samples of a piece, in order. Constant cost a sample wherever the piece lies.
  Draw draw(const Piece& piece) const;

  int64_t size() const { return size_; }
  uint64_t seed() const { return seed_; }

 private:
  uint64_t seed_;
  int64_t size_;
  bool shuffle_;
};

/// How a window of samples is cut into micro-batches: pieces of `micro_batch` and one remainder. A
/// plan typed in therefore gives the same run as the one that found it.
struct WindowCut {
  int64_t window_samples = 0;  ///< this rank's share of the effective batch
  int64_t micro_batch = 0;

  int64_t pieces() const;

  /// The pieces of the window that starts at `position`.
  std::vector<Piece> cut(int64_t position) const;
};

}  // namespace autotrain
