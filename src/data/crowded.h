#pragma once

#include <optional>

#include "autotrain/data.h"

namespace autotrain {

/// A data set implements this, too, whose targets are filled up to the most objects of a batch: one sample
/// makes those of all others larger. It is no cost of that sample: inputs are of one size, so windows keep
/// their order.
class Crowded {
 public:
  virtual ~Crowded() = default;

  /// Objects that a sample has at most, in any epoch. Constant time.
  virtual int64_t most_objects() const = 0;

  /// The batch as it would be if one of its samples had so many.
  virtual Batch filled_up(Batch batch) const = 0;
};

/// Returns what a data set says of its objects, and null where it says nothing.
const Crowded* crowded(const Dataset& data);

/// A data set in batches as large as any that it can give. It must outlive this object.
class FullestBatches final : public Dataset {
 public:
  explicit FullestBatches(const Dataset& data) : data_(data), crowded_(crowded(data)) {}

  int64_t size() const override { return data_.size(); }
  DatasetInfo info() const override { return data_.info(); }
  bool on_device() const override { return data_.on_device(); }
  bool changes() const override { return data_.changes(); }
  std::optional<int64_t> cost(int64_t index) const override { return data_.cost(index); }
  Batch get(c10::ArrayRef<int64_t> indices, const SampleRandom& random) const override;

 private:
  const Dataset& data_;
  const Crowded* const crowded_;
};

}  // namespace autotrain
