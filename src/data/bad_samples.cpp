#include "data/bad_samples.h"

#include "base/text.h"

namespace autotrain {

Batch SkippingDataset::get(c10::ArrayRef<int64_t> indices, const SampleRandom& random) const {
  std::vector<int64_t> epochs(indices.size());
  for (size_t i = 0; i < epochs.size(); ++i) epochs[i] = random.epoch(i);
  for (;;) {
    const std::vector<int64_t> chosen = good_instead_of(indices, epochs);
    const SampleRandom keys = random.of(chosen);
    try {
      return dataset_->get(chosen, keys);
    } catch (const Error& error) {
      if (error.code() != ExitCode::kBadData || !find_bad(chosen, keys)) throw;
    }
  }
}

std::vector<int64_t> SkippingDataset::good_instead_of(c10::ArrayRef<int64_t> indices,
                                                      const std::vector<int64_t>& epochs) const {
  const std::lock_guard lock(mutex_);
  const int64_t n = size();
  std::vector<int64_t> good = indices.vec();
  for (size_t i = 0; i < good.size(); ++i) {
    const auto& bad = bad_[epochs[i]];
    if (static_cast<int64_t>(bad.size()) == n) {
      throw Error(ExitCode::kBadData, bad.begin()->second,
                  cat("none of the ", n, " samples of the data set can be read"), "mend the data set");
    }
    while (bad.contains(good[i])) good[i] = (good[i] + 1) % n;
  }
  return good;
}

// Asks for one after the other; whether there was a bad one that nobody knew of when `indices` were chosen.
bool SkippingDataset::find_bad(c10::ArrayRef<int64_t> indices, const SampleRandom& random) const {
  bool any = false;
  for (size_t i = 0; i < indices.size(); ++i) {
    const int64_t epoch = random.epoch(i);
    try {
      dataset_->get(indices[i], random.alone(i));
    } catch (const Error& error) {
      if (error.code() != ExitCode::kBadData) throw;
      any = true;
      const std::lock_guard lock(mutex_);
      bad_[epoch].emplace(indices[i], error.where());
      if (ever_bad_.insert(indices[i]).second) {
        found_.push_back({indices[i], cat(error.where(), ": ", error.problem())});
      }
    }
  }
  return any;
}

int64_t SkippingDataset::count() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(ever_bad_.size());
}

std::vector<SkippingDataset::BadSample> SkippingDataset::take_found() const {
  const std::lock_guard lock(mutex_);
  return std::exchange(found_, {});
}

const Dataset& itself(const Dataset& data) {
  const auto* const skipping = dynamic_cast<const SkippingDataset*>(&data);
  return skipping == nullptr ? data : skipping->dataset();
}

}  // namespace autotrain
