#pragma once

#include <cstdint>
#include <string_view>

namespace autotrain {

/// Randomness that is derived, not carried: every draw is a function of what it is for, so
/// nothing has to be stored to continue a run.

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection of 64 bits that mixes well.
constexpr uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// The hash FNV-1a of 64 bits (Fowler, Noll, Vo): it tells texts apart, and does not mix well.
/// @param before of what stands before these bytes.
constexpr uint64_t fnv1a(std::string_view bytes, uint64_t before = 0xcbf29ce484222325ULL) {
  for (const char c : bytes) before = (before ^ static_cast<uint8_t>(c)) * 0x100000001b3ULL;
  return before;
}

/// A key from several numbers; another order or count of numbers gives an unrelated key.
template <class... Numbers>
constexpr uint64_t derive_key(uint64_t first, Numbers... rest) {
  uint64_t key = mix(first);
  ((key = mix(key ^ mix(static_cast<uint64_t>(rest) + 0x632be59bd9b4e019ULL))), ...);
  return key;
}

/// What a key is for, so that equal numbers in two places draw independently.
enum class RandomUse : uint64_t {
  kOrder = 1,
  kAugmentation = 2,
  kModel = 3,
  kWeights = 4,
  kSynthetic = 5,
  kSplit = 6,
  kTask = 7,
  kInputScale = 8
};

/// SplitMix64 started at a key. A value: cheap to make, one for each sample.
class Random {
 public:
  explicit Random(uint64_t key) : state_(key) {}

  uint64_t next() {
    const uint64_t drawn = mix(state_);
    state_ += kStep;
    return drawn;
  }

  /// Goes on as after so many calls of `next`, in constant time.
  void skip(uint64_t draws) { state_ += draws * kStep; }

  /// Uniform in [0, 1) with 53 random bits.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  /// Uniform in [0, n); n > 0. The bias of at most n ÷ 2⁶⁴ is below notice.
  int64_t below(int64_t n) {
    const auto wide = static_cast<unsigned __int128>(next()) * static_cast<uint64_t>(n);
    return static_cast<int64_t>(wide >> 64);
  }

  /// Standard normal (Box and Muller 1958), of two draws.
  double normal();

 private:
  static constexpr uint64_t kStep = 0x9e3779b97f4a7c15ULL;

  uint64_t state_;
};

}  // namespace autotrain
