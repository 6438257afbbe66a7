#include "data/balance.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "autotrain/error.h"
#include "base/random.h"
#include "data/permutation.h"

namespace autotrain {
namespace {

constexpr int kLine = -1, kShift = -2;  // in the place of an epoch, whose order the key is otherwise

}  // namespace

// Systematic sampling: the slots are points one apart on the line of all weights, shifted anew each epoch, so
// that a sample gets as many as lie in its own part of the line.
Balance::Balance(const std::vector<double>& weights, const std::vector<int64_t>& groups, uint64_t seed)
    : seed_(seed), order_(weights.size()), ends_(weights.size()) {
  check_invariant(!weights.empty() && groups.size() == weights.size(),
                  "every sample has a weight and a group");
  // Neighbours on the line are seldom drawn together: they are no neighbours in the data.
  const Permutation shuffled(derive_key(seed, static_cast<uint64_t>(RandomUse::kOrder), kLine),
                             static_cast<int64_t>(weights.size()));
  for (size_t i = 0; i < order_.size(); ++i) order_[i] = shuffled(static_cast<int64_t>(i));
  std::ranges::stable_sort(order_, {}, [&](int64_t sample) { return groups[static_cast<size_t>(sample)]; });
  double sum = 0;
  for (size_t i = 0; i < order_.size(); ++i) ends_[i] = sum += weights[static_cast<size_t>(order_[i])];
  check_invariant(sum > 0 && std::isfinite(sum), "some samples have a weight");
  const auto slots = static_cast<double>(weights.size());
  for (double& end : ends_) end = end / sum * slots;
}

// The golden ratio's multiples lie most evenly: each sample gets its due over any number of epochs.
double Balance::shift(int64_t epoch) const {
  constexpr double kGolden = 0.6180339887498949;
  const uint64_t key = derive_key(seed_, static_cast<uint64_t>(RandomUse::kOrder), kShift);
  const double start = static_cast<double>(key >> 11) * 0x1p-53 + static_cast<double>(epoch) * kGolden;
  return start - std::floor(start);
}

Balance::Draw Balance::draw(int64_t epoch, int64_t slot) const {
  const double offset = shift(epoch), point = static_cast<double>(slot) + offset;
  auto found = std::ranges::upper_bound(ends_, point);
  if (found == ends_.end()) found = std::ranges::lower_bound(ends_, ends_.back());  // by rounding
  const double start = found == ends_.begin() ? 0 : *(found - 1);
  const auto first = static_cast<int64_t>(std::ceil(start - offset));
  return {order_[static_cast<size_t>(found - ends_.begin())],
          std::max<int64_t>(0, slot - std::max<int64_t>(first, 0))};
}

uint64_t Balance::fingerprint() const {
  uint64_t key = seed_;
  for (size_t i = 0; i < order_.size(); ++i)
    key = derive_key(key, static_cast<uint64_t>(order_[i]), std::bit_cast<uint64_t>(ends_[i]));
  return key;
}

std::vector<double> weights_by_class(const std::vector<int64_t>& classes) {
  const int64_t count = std::max<int64_t>(-1, *std::ranges::max_element(classes)) + 1;
  std::vector<int64_t> samples(static_cast<size_t>(count));
  for (const int64_t c : classes) {
    if (c >= 0) ++samples[static_cast<size_t>(c)];
  }
  std::vector<double> weights(classes.size());
  for (size_t i = 0; i < classes.size(); ++i) {
    if (classes[i] >= 0) weights[i] = 1 / static_cast<double>(samples[static_cast<size_t>(classes[i])]);
  }
  return weights;
}

}  // namespace autotrain
