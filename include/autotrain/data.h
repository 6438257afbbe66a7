#pragma once

#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "autotrain/batch.h"

namespace autotrain {

/// Random numbers for the samples of one request, derived from (seed, epoch, sample index): the same
/// sample in the same epoch always draws the same, whoever asks and whenever.
class SampleRandom {
 public:
  /// @param epochs one for each index. @param positions likewise, or none. All must outlive this object.
  SampleRandom(uint64_t seed, c10::ArrayRef<int64_t> indices, c10::ArrayRef<int64_t> epochs,
               c10::ArrayRef<int64_t> positions = {})
      : seed_(seed), indices_(indices), epochs_(epochs), positions_(positions) {}

  /// A 64-bit key for the i-th sample of the request, to seed any generator with.
  uint64_t key(size_t i) const;

  uint64_t seed() const { return seed_; }
  int64_t epoch(size_t i) const { return epochs_[i]; }

  /// How many samples of the run, those of skipped updates included, come before the i-th; −1: it is no
  /// sample of a run. What depends on it may differ within an epoch: `data.bad_samples: skip` knows bad
  /// samples by their epoch.
  int64_t position(size_t i) const { return positions_.empty() ? -1 : positions_[i]; }

  /// For samples that stand in the places of these; `indices` must outlive it.
  SampleRandom of(c10::ArrayRef<int64_t> indices) const { return {seed_, indices, epochs_, positions_}; }

  /// For the i-th sample alone. It must not outlive what this was made from.
  SampleRandom alone(size_t i) const {
    return {seed_, indices_.slice(i, 1), epochs_.slice(i, 1),
            positions_.empty() ? positions_ : positions_.slice(i, 1)};
  }

 private:
  uint64_t seed_;
  c10::ArrayRef<int64_t> indices_;
  c10::ArrayRef<int64_t> epochs_;
  c10::ArrayRef<int64_t> positions_;
};

/// What a model must know about the samples to be built for them. Fields that do not apply are 0 or
/// empty.
struct DatasetInfo {
  enum class Kind { kUnknown, kImages, kVectors, kTokens };
  Kind kind = Kind::kUnknown;

  /// Of one sample: [C, H, W], [features], [context] (tokens at most) or other.
  std::vector<int64_t> input_shape = {};

  /// Numbers that a model predicts for a target. Integer targets are class indices below it; of float
  /// targets, numbers to be predicted, it is the last dimension: [n, 1] where there is one for a sample.
  int64_t classes = 0;
  int64_t vocabulary = 0;  ///< tokens are below it

  /// Where a sample has several inputs: all of them, Batch::inputs first. Models that take one alone cannot
  /// learn from such data.
  std::vector<InputInfo> inputs = {};

  /// Whether the only input of a sample, or its target, is a number of its own in the data, [N], where
  /// batches have [n, 1]. TorchScript modules are given such as [n].
  bool input_is_number = false, target_is_number = false;
};

/// Samples by index. `get` is called from several loader threads at once, whose stacks have 2 MiB, and must
/// be thread-safe.
class Dataset {
 public:
  virtual ~Dataset() = default;

  /// Samples in one epoch; does not change.
  virtual int64_t size() const = 0;

  /// The samples `indices`, each in [0, size()), collated in this order. Equal requests must give
  /// equal batches: everything random comes from `random`. A sample that cannot be read is an
  /// Error(kBadData) that names it; `data.bad_samples: skip` goes on after it. Samples of different length
  /// are padded to the longest of the request; what fills them up must not count in the task's sums and
  /// weights.
  virtual Batch get(c10::ArrayRef<int64_t> indices, const SampleRandom& random) const = 0;

  /// What a sample takes beside others, such as its length in tokens: a batch of samples that cost more
  /// needs no less memory. Each window is sorted by it before it is cut into micro-batches, so that like
  /// comes to like, and the planner tries the samples that cost most. Either all samples have a cost or,
  /// where they are alike, none. Called often: constant time, no reading of files; the same in every epoch.
  virtual std::optional<int64_t> cost(int64_t index) const {
    (void)index;
    return std::nullopt;
  }

  virtual DatasetInfo info() const { return {}; }

  /// Whether `get` makes batches on a GPU, out of samples that lie there. They are made when they are used,
  /// by the thread that uses them and on its current stream: none ahead, which would take memory of the
  /// device.
  virtual bool on_device() const { return false; }

  /// Whether what `get` gives changes while a run goes on: a buffer of what was met so far, a stream. No
  /// batch is then made ahead: those of an update are made by the thread that calls the task, each before its
  /// own pass, when `Task::after_step` of the update before is done. `size` stays what counts as an epoch.
  /// What it depends on belongs into `Task::state`, so that it is saved and put back.
  virtual bool changes() const { return false; }
};

/// Samples held in two tensors.
class TensorDataset final : public Dataset {
 public:
  /// @param inputs  [N, …] on the CPU; becomes [n, …] of the same dtype.
  /// @param targets [N, …] on the CPU, or undefined.
  /// @param classes as in DatasetInfo; models made from a recipe need it.
  /// @throws Error(kBadData) when their first dimensions differ.
  explicit TensorDataset(torch::Tensor inputs, torch::Tensor targets = {}, int64_t classes = 0);

  int64_t size() const override;
  Batch get(c10::ArrayRef<int64_t> indices, const SampleRandom& random) const override;
  DatasetInfo info() const override;

 private:
  torch::Tensor inputs_;
  torch::Tensor targets_;
  int64_t classes_;
};

}  // namespace autotrain
