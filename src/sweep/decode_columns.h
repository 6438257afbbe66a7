#pragma once

#include "report/column.h"
#include "sweep/decode.h"

namespace autotrain {

/// The figures of a point that has some, as decode.json, decode.csv, the page and the terminal have them.
const ColumnsOf<DecodePoint>& decode_columns();

/// Those of static and continuous batches.
const ColumnsOf<BatchingComparison>& batching_columns();

}  // namespace autotrain
