#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "autotrain/data.h"
#include "autotrain/task.h"
#include "base/random.h"
#include "model/models.h"

namespace autotrain::test {

/// Sequences of made-up tokens, padded to the longest of a request. `silent`: they do not say what they cost.
class Ragged final : public Dataset {
 public:
  static constexpr int64_t kVocabulary = 11;

  explicit Ragged(std::vector<int64_t> lengths, bool silent = false)
      : lengths_(std::move(lengths)), silent_(silent) {}

  int64_t size() const override { return std::ssize(lengths_); }
  int64_t length(int64_t index) const { return lengths_[static_cast<size_t>(index)]; }
  int64_t longest() const { return *std::ranges::max_element(lengths_); }

  std::optional<int64_t> cost(int64_t index) const override {
    return silent_ ? std::nullopt : std::optional(length(index));
  }

  DatasetInfo info() const override {
    return {.kind = DatasetInfo::Kind::kTokens,
            .input_shape = {longest()},
            .classes = kVocabulary,
            .vocabulary = kVocabulary};
  }

  Batch get(c10::ArrayRef<int64_t> indices, const SampleRandom&) const override {
    int64_t width = 0;
    for (const int64_t index : indices) width = std::max(width, length(index));
    const auto n = static_cast<int64_t>(indices.size());
    Batch batch{torch::full({n, width}, 3), torch::full({n, width}, -100), n};
    for (int64_t i = 0; i < n; ++i) {
      const int64_t index = indices[static_cast<size_t>(i)];
      Random random(static_cast<uint64_t>(index));
      for (int64_t j = 0; j < length(index); ++j) {
        batch.inputs[i][j] = random.below(kVocabulary);
        batch.targets[i][j] = random.below(kVocabulary);
      }
    }
    return batch;
  }

 private:
  std::vector<int64_t> lengths_;
  bool silent_;
};

/// Most of them short, a few long.
inline std::vector<int64_t> random_lengths(int64_t count, Random& random, int64_t longest = 24) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < count; ++i) {
    lengths.push_back(1 + random.below(random.below(4) == 0 ? longest : longest / 4));
  }
  return lengths;
}

/// A small transformer for them.
inline std::unique_ptr<Task> ragged_task(int64_t context, int64_t width = 8, Loss loss = cross_entropy()) {
  torch::manual_seed(1);
  const Choice choice{"transformer", {{"layers", int64_t{2}}, {"width", width}, {"heads", int64_t{2}}}};
  return supervised(make_model(choice, {{context}, Ragged::kVocabulary, Ragged::kVocabulary}),
                    std::move(loss));
}

}  // namespace autotrain::test
