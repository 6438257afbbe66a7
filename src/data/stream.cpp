#include "data/stream.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "autotrain/error.h"
#include "base/random.h"
#include "base/units.h"

namespace autotrain {
namespace {

constexpr int64_t kCopy = int64_t{1} << 40;  // beyond any epoch: augmentation draws anew

}  // namespace

Stream::Stream(uint64_t seed, int64_t size, bool shuffle, std::shared_ptr<const Balance> balance)
    : seed_(seed), size_(size), shuffle_(shuffle), balance_(std::move(balance)) {
  check_invariant(balance_ == nullptr || (shuffle_ && balance_->size() == size_),
                  "balanced samples are shuffled");
}

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
  int64_t last = -1;
  for (const int64_t position : piece.positions) {
    const int64_t epoch = position / size_;
    if (epoch != last) {
      last = epoch;
      permutation.emplace(derive_key(seed_, static_cast<uint64_t>(RandomUse::kOrder), epoch), size_);
    }
    const int64_t at = position - epoch * size_;
    const int64_t slot = shuffle_ ? (*permutation)(at) : at;
    const Balance::Draw of = balance_ ? balance_->draw(epoch, slot) : Balance::Draw{slot, 0};
    drawn.indices.push_back(of.sample);
    drawn.epochs.push_back(epoch + of.copy * kCopy);
  }
  return drawn;
}

int64_t WindowCut::lane_offset(int64_t lane) const {
  const int64_t each = window_samples / lanes.of, more = window_samples % lanes.of;
  return lane * each + lane * more / lanes.of;  // the lanes with a sample more are spread evenly
}

int64_t WindowCut::lane_samples(int64_t lane) const {
  return lane_offset(lane + 1) - lane_offset(lane);
}

int64_t WindowCut::share() const {
  return lane_offset(lanes.first + lanes.count) - lane_offset(lanes.first);
}

int64_t WindowCut::most_pieces() const {
  return lanes.count * ceil_div(ceil_div(window_samples, lanes.of), micro_batch);
}

std::vector<Piece> WindowCut::cut(const Piece& window) const {
  const int64_t rounds = window_samples / lanes.of;
  std::vector<Piece> pieces;
  for (int64_t lane = lanes.first; lane < lanes.first + lanes.count; ++lane) {
    const int64_t samples = lane_samples(lane);
    const int64_t behind = rounds * lanes.of + lane_offset(lane) - lane * rounds;  // of a lane's sample more
    for (int64_t done = 0; done < samples; ++done) {
      if (done % micro_batch == 0) pieces.emplace_back();
      const int64_t at = done < rounds ? done * lanes.of + lane : behind;
      pieces.back().positions.push_back(window.positions[static_cast<size_t>(at)]);
    }
  }
  return pieces;
}

}  // namespace autotrain
