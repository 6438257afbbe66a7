#pragma once

#include <cstdint>

#include "autotrain/batch.h"

namespace autotrain {

/// Sizes of the inputs that updates see: each one's own, of all its samples, drawn from the number of its
/// window, so that no cut, rank, repetition or resume changes it.
struct InputScale {
  double share = 0;   ///< by which inputs are smaller at most; 0: they are left alone
  uint64_t seed = 0;  ///< of the run

  static constexpr int64_t kStep = 32;  ///< pixels of the shorter side; the coarsest stride of detectors

  bool active() const { return share > 0; }

  /// How many steps smaller inputs of that shorter side are at most.
  int64_t most_steps(int64_t shorter_side) const;

  /// How many they are in that window.
  int64_t steps(int64_t shorter_side, int64_t window) const;
};

/// The batch with its images, inputs [n, c, h, w], so many steps smaller in both directions by the same
/// factor: bilinear with antialiasing. They are new memory, for 0 steps too, so that a trial of the largest
/// holds as many images as an update of smaller ones.
Batch shrunk(Batch batch, int64_t steps);

}  // namespace autotrain
