#pragma once

#include <vector>

#include "autotrain/data.h"

namespace autotrain::test {

/// Samples of a data set as their epochs have them: the first, unless one is given for each.
inline Batch samples(const Dataset& data, const std::vector<int64_t>& indices,
                     std::vector<int64_t> epochs = {}, uint64_t seed = 0) {
  epochs.resize(indices.size());
  return data.get(indices, SampleRandom(seed, indices, epochs));
}

/// All samples in their order.
inline Batch all_samples(const Dataset& data) {
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < data.size(); ++i) indices.push_back(i);
  return samples(data, indices);
}

}  // namespace autotrain::test
