#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace autotrain {

/// One of several inputs of a sample.
struct InputInfo {
  std::string name = {};
  torch::ScalarType type = torch::kFloat32;
  std::vector<int64_t> shape = {};  ///< of one sample

  bool operator==(const InputInfo&) const = default;
};

/// Some samples, ready for a forward pass.
struct Batch {
  torch::Tensor inputs = {};   ///< [n, …], any dtype
  torch::Tensor targets = {};  ///< [n, …]; undefined when the task needs none
  int64_t samples = 0;         ///< n

  /// Where a sample has several inputs: all but the first, in the order of DatasetInfo::inputs; [n, …] each,
  /// any dtype.
  std::vector<torch::Tensor> more_inputs = {};

  /// Where the task asks which samples it holds (Task::names_samples), both [n] int64; else undefined. Of
  /// each sample its number in the data set, and a key that is its own in this epoch, however an update is
  /// cut and whichever rank has it: `randn_like` draws by it (autotrain/random.h).
  torch::Tensor indices = {}, keys = {};

  /// `inputs`, and more of them.
  std::vector<torch::Tensor> all_inputs() const;

  /// All that is defined: inputs, targets, more inputs, indices, keys.
  std::vector<torch::Tensor> tensors() const;

  /// The same samples, with what `change` makes of each of those tensors in its place.
  Batch with_each(const std::function<torch::Tensor(const torch::Tensor&)>& change) const;

  /// The same samples on `device`. From pinned memory to a GPU the copy is asynchronous.
  Batch to(torch::Device device) const;
};

}  // namespace autotrain
