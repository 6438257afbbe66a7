#include "data/stream.h"

#include <algorithm>

#include "base/random.h"
#include "base/units.h"

namespace autotrain {

Stream::Stream(uint64_t seed, int64_t size, bool shuffle) : seed_(seed), size_(size), shuffle_(shuffle) {}

Stream::Draw Stream::draw(const Piece& piece) const {
  Draw drawn;
  drawn.indices.reserve(static_cast<size_t>(piece.samples));
  drawn.epochs.reserve(static_cast<size_t>(piece.samples));
  const int64_t end = piece.position + piece.samples;
  for (int64_t position = piece.position; position < end;) {
    const int64_t epoch = position / size_;
    const int64_t epoch_end = std::min(end, (epoch + 1) * size_);
    const Permutation permutation(derive_key(seed_, static_cast<uint64_t>(RandomUse::kOrder), epoch), size_);
    for (; position < epoch_end; ++position) {
      const int64_t at = position - epoch * size_;
      drawn.indices.push_back(shuffle_ ? permutation(at) : at);
      drawn.epochs.push_back(epoch);
    }
  }
  return drawn;
}

int64_t WindowCut::pieces() const {
  return ceil_div(window_samples, micro_batch);
}

std::vector<Piece> WindowCut::cut(int64_t position) const {
  std::vector<Piece> pieces;
  for (int64_t done = 0; done < window_samples; done += micro_batch) {
    pieces.push_back({position + done, std::min(micro_batch, window_samples - done)});
  }
  return pieces;
}

}  // namespace autotrain
