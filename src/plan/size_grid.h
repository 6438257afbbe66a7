#pragma once

#include "plan/search.h"

namespace autotrain {

/// Searches that interpolate end on a grid of sizes: multiples of `limits.multiple_of`, from 16 of them on
/// eight sizes to each doubling, and the cap. Its steps are 6 to 12 % of a size, so two searches whose
/// brackets closed around the same capacity found the same size, and a larger budget never finds a smaller
/// one.
///
/// The size of the grid next to `size`, from below, strictly between `low` and `high`; 0 when there is none.
/// Precondition: high ≤ limits.cap + 1.
int64_t grid_between(double size, int64_t low, int64_t high, const SearchLimits& limits);

/// For where that is 0: the same on a grid of half its steps; where its steps are single multiples already,
/// any size, as size_between has it.
int64_t half_step_between(double size, int64_t low, int64_t high, const SearchLimits& limits);

/// The multiple of `limits.multiple_of` nearest to `size` strictly between `low` and `high`, else any whole
/// size there; 0 when there is none.
int64_t size_between(double size, int64_t low, int64_t high, const SearchLimits& limits);

/// The multiple of `step` nearest to `size` strictly between `low` and `high`; 0 when there is none.
int64_t multiple_between(double size, int64_t low, int64_t high, int64_t step);

}  // namespace autotrain
