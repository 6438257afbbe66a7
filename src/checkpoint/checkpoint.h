#pragma once

#include <filesystem>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "autotrain/named_tensor.h"

namespace autotrain {

/// The live tensors of a run, by name.
struct TensorLists {
  std::vector<NamedTensor> model = {};      ///< parameters and buffers
  std::vector<NamedTensor> optimizer = {};  ///< moments, scaler
  std::vector<NamedTensor> averaged = {};   ///< the model with averaged weights; empty: none

  int64_t bytes() const;
};

/// Copies of tensors, in their order.
using CopyTensors = std::function<std::vector<torch::Tensor>(const std::vector<torch::Tensor>&)>;

/// The copies that `copy` makes of all tensors, each once: those that were one stay one.
TensorLists copy_of(const TensorLists& live, const CopyTensors& copy);

/// What a checkpoint holds.
struct CheckpointContent {
  TensorLists tensors;
  nlohmann::ordered_json state;  ///< counters, plan, recipe
};

/// Which checkpoints stay when another one was written: the newest, and those that they name as the best, so
/// that a run that goes back to one of them finds its best.
struct Retention {
  int64_t keep = 1;  ///< newest ones

  /// The update that a checkpoint's state names; -1: none.
  std::function<int64_t(const nlohmann::ordered_json&)> best_in = nullptr;
};

/// The checkpoints of one run: folders `update-N` with `model.safetensors`, `optimizer.safetensors`,
/// `averaged.safetensors` where weights are averaged, `state.json` and a manifest of their sizes and
/// checksums.
///
/// A checkpoint appears whole or not at all: it is written under a temporary name, synced, and
/// renamed.
class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::filesystem::path folder);

  /// Replaces a checkpoint of the same update. @throws Error(kInputOutput).
  void write(int64_t update, const CheckpointContent& content);

  /// The state of the newest checkpoint that is whole; broken ones are named in a warning and skipped.
  /// @param before  only of updates smaller than it.
  /// @return its update and state; nothing when there is no checkpoint.
  /// @throws Error(kBadData) when there are some and none is whole: starting anew would overwrite them.
  std::optional<std::pair<int64_t, nlohmann::ordered_json>> read_newest_state(
      int64_t before = std::numeric_limits<int64_t>::max()) const;

  /// The state of one checkpoint, after every file's checksum was compared.
  /// @throws Error(kBadData) naming what is broken.
  nlohmann::ordered_json read_state(int64_t update) const;

  /// Fills the run's tensors from a checkpoint, one after the other: a second copy of them may not fit.
  /// @throws Error(kBadData) naming what is missing, left over or of another shape; nothing is changed
  /// then in the list where that was found. Averages are left alone when the checkpoint has none.
  void read_tensors(int64_t update, const TensorLists& live) const;

  /// Whether weights were averaged when it was written.
  bool holds_averages(int64_t update) const;

  /// Removes what the retention does not keep of those up to `newest`, and left-overs of interrupted writes.
  /// Those beyond `newest` go too: they are of a future that a resume from before them does not have.
  void prune(int64_t newest, const Retention& retention) const;

  /// Updates that have a checkpoint, ascending; whether they are whole is not checked.
  std::vector<int64_t> updates() const;

  const std::filesystem::path& path() const { return folder_; }

  std::filesystem::path path_of(int64_t update) const;

 private:
  std::filesystem::path aside_of(int64_t update) const;

  std::filesystem::path folder_;
};

}  // namespace autotrain
