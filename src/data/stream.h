#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "data/balance.h"
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
  /// @param balance how often an epoch has each sample; null: once. One of `size` samples, with `shuffle`.
  Stream(uint64_t seed, int64_t size, bool shuffle, std::shared_ptr<const Balance> balance = nullptr);

  struct Draw {
    std::vector<int64_t> indices;
    std::vector<int64_t> epochs;  ///< a number of its own for each further time that an epoch has a sample
  };

  /// The samples of a piece, in order. Constant cost a sample wherever they lie.
  Draw draw(const Piece& piece) const;

  int64_t size() const { return size_; }
  uint64_t seed() const { return seed_; }

 private:
  uint64_t seed_;
  int64_t size_;
  bool shuffle_;
  std::shared_ptr<const Balance> balance_;
};

/// The part of an update that one rank computes: `count` of its `of` lanes, from lane `first` on. Each lane
/// is accumulated by itself, whoever computes it, so that the bits of an update do not depend on who does.
struct Lanes {
  int64_t of = 1;
  int64_t first = 0;
  int64_t count = 1;
};

/// How a window of samples, one update over all ranks, is dealt to lanes in turns, and each lane is cut into
/// micro-batches: pieces of `micro_batch` and one remainder. Lanes differ by at most one sample, and so do
/// the shares of ranks with equally many lanes. A plan typed in gives the same run as the one that found it.
struct WindowCut {
  int64_t window_samples = 0;
  int64_t micro_batch = 0;
  Lanes lanes = {};

  /// Samples of a lane.
  int64_t lane_samples(int64_t lane) const;

  /// Samples of all lanes before this one.
  int64_t lane_offset(int64_t lane) const;

  /// Samples of this rank's lanes.
  int64_t share() const;

  /// The pieces of this rank's lanes, lane after lane, of a window of `window_samples`.
  std::vector<Piece> cut(const Piece& window) const;

  /// How many there are where lanes are as long as they get.
  int64_t most_pieces() const;
};

}  // namespace autotrain
