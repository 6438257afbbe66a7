#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "autotrain/named_tensor.h"

namespace autotrain {

/// One of several inputs of a sample.
struct InputInfo {
  std::string name = {};
  torch::ScalarType type = torch::kFloat32;
  std::vector<int64_t> shape = {};  ///< of one sample
  bool is_number = false;           ///< a number of its own in the data, [N], which has the shape [1] here

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

  /// What the samples share, of any shape and dtype: nodes and edges of the batch's graphs, masks, samples of
  /// different length one behind the other with the offsets at which they begin. `Dataset::get` makes them
  /// for the samples that it is asked for; nobody cuts them or puts them together.
  std::vector<NamedTensor> shared = {};

  /// @throws Error(kBrokenContract) when there is no shared tensor of that name.
  const torch::Tensor& shared_tensor(const std::string& name) const;

  /// `inputs`, and more of them.
  std::vector<torch::Tensor> all_inputs() const;

  /// All that is defined: inputs, targets, more inputs, indices, keys, what is shared.
  std::vector<torch::Tensor> tensors() const;

  /// The same samples, with what `change` makes of each of those tensors in its place.
  Batch with_each(const std::function<torch::Tensor(const torch::Tensor&)>& change) const;

  /// Likewise, of those that have a row for each sample. Precondition: nothing is shared.
  Batch with_each_of_samples(const std::function<torch::Tensor(const torch::Tensor&)>& change) const;

  /// The same samples on `device`. From pinned memory to a GPU the copy is asynchronous.
  Batch to(torch::Device device) const;
};

}  // namespace autotrain
