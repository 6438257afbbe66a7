#pragma once

#include <cstdint>
#include <vector>

#include "data/permutation.h"

namespace autotrain {

/// Samples that are loaded together, by their positions in the stream.
struct Piece {
  std::vector<int64_t> positions;
  int64_t samples() const { return static_cast<int64_t>(positions.size()); }
  bool operator==(const Piece&) const = default;
};

/// The samples [position, position + samples).
Piece consecutive(int64_t position, int64_t samples);

/// The endless sequence of samples: which sample of which epoch stands at a position.
class Stream {
 public:
  /// @param size samples in an epoch, ≥ 1. Without `shuffle` every epoch has the data set's order.
  Stream(uint64_t seed, int64_t size, bool shuffle);

  struct Draw {
    std::vector<int64_t> indices;
    std::vector<int64_t> epochs;
  };

  /// The samples of a piece, in order. Constant cost a sample wherever they lie.
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

  /// The pieces of a window of `window_samples`.
  std::vector<Piece> cut(const Piece& window) const;
};

}  // namespace autotrain
