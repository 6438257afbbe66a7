#pragma once

#include <torch/types.h>

#include "data/datasets.h"
#include "data/npy_array.h"

namespace autotrain {

inline constexpr int64_t kMostClasses = 1 << 24;  ///< of a file

/// Some rows of a file.
struct NpyRange {
  int64_t first = 0;
  int64_t count = 0;
};

struct NpyTargets {
  torch::Tensor values = {};  ///< of the range, int64 or float32; undefined when there are none
  int64_t classes = 0;        ///< as in DatasetInfo
  bool is_number = false;     ///< as DatasetInfo::target_is_number
};

/// The rows that the keys `first` and `limit` leave. @throws Error(kBadData) where there are none.
NpyRange npy_range(const Parameters& parameters, const NpyArray& inputs);

/// Reads the file that the key `targets` names as what the run's loss makes of targets: classes [n] or
/// [n, …], labels [n, K], or numbers [n, K]. Where the loss does not say, integers are classes and floats
/// numbers. Of validation data the number of classes is that of the training data.
/// @param inputs the samples, and what their file is called in messages.
/// @throws Error(kBadData) naming file, sample and value for what the loss cannot learn from.
NpyTargets read_npy_targets(const DatasetRequest& request, const NpyArray& inputs, NpyRange range);

/// The target that counts for nothing, as classes have it.
std::optional<int64_t> ignored_class(const TargetUse& use);

}  // namespace autotrain
