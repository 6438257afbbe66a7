#pragma once

#include <cstdint>

#include "autotrain/data.h"
#include "data/stream.h"

namespace autotrain {

/// Whether the samples differ in what they take, and say so.
bool has_costs(const Dataset& dataset);

/// The `samples` of the stream from `position` on: those that cost most first, equal ones as the stream has
/// them. Cut in this order, like comes to like; dealt in turns, every rank gets its like.
Piece window_of(const Dataset& dataset, const Stream& stream, int64_t position, int64_t samples);

/// A window that takes as much as any that a run can meet, as positions of the data set's own order: piece by
/// piece, however it is cut, none takes more. Where a window crosses an epoch's end, a sample may stand in it
/// twice; so it may here. Precondition: has_costs.
Piece costliest_window(const Dataset& dataset, int64_t samples);

/// The samples that cost least and most, the first of equal ones.
struct CostExtremes {
  int64_t cheapest = 0;
  int64_t dearest = 0;
};

/// Precondition: has_costs.
CostExtremes cost_extremes(const Dataset& dataset);

/// How many different costs its samples have. Precondition: has_costs.
int64_t distinct_costs(const Dataset& dataset);

}  // namespace autotrain
