#include "data/batches.h"

#include <algorithm>
#include <numeric>

namespace autotrain {

void for_each_batch(const Dataset& data, int64_t at_once,
                    const std::function<bool(const Batch& batch)>& visit) {
  for (int64_t first = 0; first < data.size(); first += at_once) {
    std::vector<int64_t> indices(static_cast<size_t>(std::min(at_once, data.size() - first)));
    std::iota(indices.begin(), indices.end(), first);
    const std::vector<int64_t> epochs(indices.size());
    if (!visit(data.get(indices, SampleRandom(0, indices, epochs)))) return;
  }
}

}  // namespace autotrain
