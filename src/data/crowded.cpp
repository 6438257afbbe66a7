#include "data/crowded.h"

#include <utility>

#include "data/bad_samples.h"

namespace autotrain {

const Crowded* crowded(const Dataset& data) {
  return dynamic_cast<const Crowded*>(&itself(data));
}

Batch FullestBatches::get(c10::ArrayRef<int64_t> indices, const SampleRandom& random) const {
  Batch batch = data_.get(indices, random);
  return crowded_ == nullptr ? batch : crowded_->filled_up(std::move(batch));
}

}  // namespace autotrain
