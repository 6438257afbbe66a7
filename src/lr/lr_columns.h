#pragma once

#include "lr/rate_curve.h"
#include "report/column.h"

namespace autotrain {

/// What a stretch of a range test showed, as lr.json, the page and the terminal have it.
const ColumnsOf<RateStretch>& stretch_columns();

}  // namespace autotrain
