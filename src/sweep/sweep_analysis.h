#pragma once

#include "sweep/sweep.h"

namespace autotrain {

/// The rounds of one point as one: calls of all rounds together, the worst of memory. A round that failed
/// makes it a failed one.
SweepPoint summarise_point(int64_t batch, const std::vector<StudyResult>& rounds);

/// What was measured of the model as a whole.
void take_model(const Recipe& recipe, const StudyResult& result, SweepVariant& variant);

/// The points that were measured.
std::vector<BatchLatency> latencies_of(const SweepVariant& variant);

/// Peaks, predictions, knees and rates of operations, once all points are there. Peaks of one device and
/// thread count are measured once for each variant; the best counts for all.
void analyse(Sweep& sweep);

}  // namespace autotrain
