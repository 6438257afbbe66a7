#pragma once

#include <cstdint>

namespace autotrain {

/// A pseudo-random permutation of [0, n) that gives any element in constant time and memory, so that
/// a run can start anywhere in its data.
///
/// A Feistel network over the next power of four, walked until it lands inside (format-preserving
/// encryption by cycle walking: Black and Rogaway 2002).
class Permutation {
 public:
  /// @param n ≥ 1
  Permutation(uint64_t key, int64_t n);

  /// The element at `i` in [0, n). A bijection.
  int64_t operator()(int64_t i) const;

 private:
  uint64_t encrypt(uint64_t value) const;

  uint64_t key_;
  uint64_t n_;
  int half_bits_;
};

}  // namespace autotrain
