#pragma once

#include <cstdint>
#include <vector>

#include "autotrain/recipe.h"

namespace autotrain {

struct CutRequest {
  int64_t share = 0;     ///< samples of an update in one lane
  int64_t capacity = 0;  ///< largest micro-batch that fits
  Cut cut = Cut::kEven;
  int64_t minimum = 1;  ///< 2: a remainder of one sample must not be left (batch normalisation)
  bool uneven = false;  ///< some lanes have one sample less

  /// Shares of smaller updates that are cut into the same pieces, and must leave none that is too small
  /// either.
  std::vector<int64_t> others = {};
};

/// The micro-batch that is executed: `full` takes the capacity, `even` makes the pieces nearly equal,
/// so that the remainder is smaller by less than their number.
int64_t executed_micro_batch(const CutRequest& request);

/// Samples in the last piece when `share` is cut into pieces of `micro_batch`.
int64_t remainder_of(int64_t share, int64_t micro_batch);

/// The same of the lane where it is smaller, when so many samples are dealt to `lanes`. Empty lanes count as
/// one whole piece.
int64_t smallest_remainder(int64_t samples, int64_t lanes, int64_t micro_batch);

}  // namespace autotrain
