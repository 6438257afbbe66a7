#pragma once

#include <atomic>

#include "autotrain/data.h"

namespace autotrain::test {

/// Another data set, of which it counts what is asked for.
class Counted final : public Dataset {
 public:
  /// @param on_device says that its batches are made on a device.
  explicit Counted(const Dataset& data, bool on_device = false) : data_(data), on_device_(on_device) {}

  int64_t size() const override { return data_.size(); }
  DatasetInfo info() const override { return data_.info(); }
  std::optional<int64_t> cost(int64_t index) const override { return data_.cost(index); }
  bool on_device() const override { return on_device_; }
  Batch get(c10::ArrayRef<int64_t> indices, const SampleRandom& random) const override {
    ++requests_;
    samples_ += static_cast<int64_t>(indices.size());
    return data_.get(indices, random);
  }

  int64_t requests() const { return requests_; }
  int64_t samples() const { return samples_; }

 private:
  const Dataset& data_;
  const bool on_device_;
  mutable std::atomic<int64_t> requests_ = 0, samples_ = 0;
};

}  // namespace autotrain::test
