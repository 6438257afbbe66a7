#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "autotrain/data.h"

namespace autotrain {

/// The first of `count` numbers that is NaN or infinite; `count` where all are finite.
int64_t first_not_finite(const float* numbers, int64_t count);

/// The first of `count` numbers that is NaN; `count` where none is.
int64_t first_nan(const float* numbers, int64_t count);

/// A number of a batch that is NaN or infinite.
struct NotFinite {
  int64_t sample;  ///< its place in the batch
  std::string of;  ///< "inputs", "targets", or the name of the input
  double value;
};

/// The first number of a batch on any device that is not finite: of its inputs, then of its targets; nothing
/// where all are finite. Waits for a GPU.
std::optional<NotFinite> first_value_that_is_not_finite(const Batch& batch, const DatasetInfo& info = {});

}  // namespace autotrain
