#pragma once

#include "report/column.h"
#include "sweep/sweep.h"

namespace autotrain {

/// The figures of a point that has some, as sweep.json, sweep.csv, the page and the terminal have them.
const ColumnsOf<SweepPoint>& point_columns();

/// What it did with memory beside its peak.
const ColumnsOf<PointMemory>& memory_columns();

/// Those of end-to-end inference; in sweep.csv they begin with "end_to_end_".
const ColumnsOf<EndToEnd>& end_to_end_columns();

/// Those of the largest batch in the band.
const ColumnsOf<LargestBatch>& largest_columns();

}  // namespace autotrain
