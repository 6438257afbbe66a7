#include "data/permutation.h"

#include <bit>

#include "autotrain/error.h"
#include "base/random.h"

namespace autotrain {
namespace {

constexpr uint64_t kRounds = 6;

}  // namespace

Permutation::Permutation(uint64_t key, int64_t n) : key_(key), n_(static_cast<uint64_t>(n)) {
  check_invariant(n >= 1, "a permutation has at least one element");
  const int bits = static_cast<int>(std::bit_width(n_ - 1));
  half_bits_ = (bits + 1) / 2;
  if (half_bits_ == 0) half_bits_ = 1;
}

uint64_t Permutation::encrypt(uint64_t value) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = value >> half_bits_;
  uint64_t right = value & mask;
  for (uint64_t round = 0; round < kRounds; ++round) {
    const uint64_t mixed = mix(key_ ^ mix((round << 48) ^ right)) & mask;
    const uint64_t next = left ^ mixed;
    left = right;
    right = next;
  }
  return (left << half_bits_) | right;
}

int64_t Permutation::operator()(int64_t i) const {
  auto value = static_cast<uint64_t>(i);
  do {
    value = encrypt(value);  // the domain is less than four times n: two walks on average at most
  } while (value >= n_);
  return static_cast<int64_t>(value);
}

}  // namespace autotrain
