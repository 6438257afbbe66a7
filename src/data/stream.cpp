#include "data/stream.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/random.h"
#include "base/units.h"

namespace autotrain {

Stream::Stream(uint64_t seed, int64_t size, bool shuffle) : seed_(seed), size_(size), shuffle_(shuffle) {}

Piece consecutive(int64_t position, int64_t samples) {
  Piece piece{std::vector<int64_t>(static_cast<size_t>(samples))};
  std::iota(piece.positions.begin(), piece.positions.end(), position);
  return piece;
}

Stream::Draw Stream::draw(const Piece& piece) const {
  Draw drawn;
  drawn.indices.reserve(piece.positions.size());
  drawn.epochs.reserve(piece.positions.size());
  std::optional<Permutation> permutation;  // of the last sample's epoch
  for (const int64_t position : piece.positions) {
    const int64_t epoch = position / size_;
    if (!permutation || epoch != drawn.epochs.back()) {
      permutation.emplace(derive_key(seed_, static_cast<uint64_t>(RandomUse::kOrder), epoch), size_);
    }
    const int64_t at = position - epoch * size_;
    drawn.indices.push_back(shuffle_ ? (*permutation)(at) : at);
    drawn.epochs.push_back(epoch);
  }
  return drawn;
}

int64_t WindowCut::pieces() const {
  return ceil_div(window_samples, micro_batch);
}

std::vector<Piece> WindowCut::cut(const Piece& window) const {
  std::vector<Piece> pieces;
  const auto begin = window.positions.begin();
  for (int64_t done = 0; done < window_samples; done += micro_batch) {
    const int64_t end = std::min(done + micro_batch, window_samples);
    pieces.push_back({{begin + done, begin + end}});
  }
  return pieces;
}

}  // namespace autotrain
