#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "autotrain/data.h"
#include "autotrain/error.h"

namespace autotrain {

/// A data set that goes on where another one ends the run: in the place of a sample that cannot be read
/// stands the next one of the data set that can. Which one that is depends on the data alone, so requests
/// stay equal however they are cut.
class SkippingDataset final : public Dataset {
 public:
  explicit SkippingDataset(std::unique_ptr<Dataset> dataset) : dataset_(std::move(dataset)) {}

  int64_t size() const override { return dataset_->size(); }
  DatasetInfo info() const override { return dataset_->info(); }
  bool on_device() const override { return dataset_->on_device(); }
  bool changes() const override { return dataset_->changes(); }

  /// The cost of the sample itself; the one that stands in for a bad one may cost more, but never more than
  /// the costliest.
  std::optional<int64_t> cost(int64_t index) const override { return dataset_->cost(index); }

  /// @throws Error(kBadData) when no sample can be read; what is no Error(kBadData) is thrown as it is.
  Batch get(c10::ArrayRef<int64_t> indices, const SampleRandom& random) const override;

  /// The data set that it goes on for.
  const Dataset& dataset() const { return *dataset_; }

  struct BadSample {
    int64_t index = 0;
    std::string why;
  };

  /// Those found since the last call, in the order of their discovery.
  std::vector<BadSample> take_found() const;

  /// How many are known.
  int64_t count() const;

 private:
  std::vector<int64_t> good_instead_of(c10::ArrayRef<int64_t> indices,
                                       const std::vector<int64_t>& epochs) const;
  bool find_bad(c10::ArrayRef<int64_t> indices, const SampleRandom& random) const;

  std::unique_ptr<Dataset> dataset_;
  mutable std::mutex mutex_;
  // By epoch, since what a sample is made of may differ from one to the next (the images of a mosaic): which
  // sample takes its place must not depend on what was found in other epochs.
  mutable std::map<int64_t, std::map<int64_t, std::string>> bad_;
  mutable std::set<int64_t> ever_bad_;
  mutable std::vector<BadSample> found_;
};

/// The data set itself, where one that goes on after bad samples stands before it.
const Dataset& itself(const Dataset& data);

}  // namespace autotrain
