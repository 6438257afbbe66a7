#pragma once

#include "report/column.h"
#include "sweep/serving.h"

namespace autotrain {

/// The figures of a rate before a way of serving.
const ColumnsOf<ServingPoint>& serving_columns();

/// What a line is: batch, window, servers.
const ColumnsOf<Serving>& line_columns();

}  // namespace autotrain
