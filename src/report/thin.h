#pragma once

#include "report/page.h"

namespace autotrain::page {

struct Thinned {
  Series series;
  size_t rows_each = 1;  ///< rows that one point stands for (the last one perhaps for fewer)
};

/// The series in at most `most` points: each the mean of equally many neighbours, at the x of the last of
/// them, with the least and greatest of their values (and bands) as its band. A short one is returned as it
/// is; labels of a long one are dropped. Values that are not finite do not count; a point without any other
/// is a gap.
Thinned thin(const Series& series, size_t most);

}  // namespace autotrain::page
