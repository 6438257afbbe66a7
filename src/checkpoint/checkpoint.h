#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/named_tensor.h"

namespace autotrain {

/// What a checkpoint holds.
struct CheckpointContent {
  std::vector<NamedTensor> model;      ///< parameters and buffers
  std::vector<NamedTensor> optimizer;  ///< moments, scaler
  nlohmann::ordered_json state;        ///< counters, plan, identity
};

/// The checkpoints of one run: folders `update-N` with `model.safetensors`, `optimizer.safetensors`,
/// `state.json` and a manifest of their sizes and checksums.
///
/// A checkpoint appears whole or not at all: it is written under a temporary name, synced, and
/// renamed.
class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::filesystem::path folder);

  /// Replaces a checkpoint of the same update. @throws Error(kInputOutput).
  void write(int64_t update, const CheckpointContent& content);

  /// The newest checkpoint that is whole; broken ones are named in a warning and skipped.
  /// @return its update and content; nothing when there is none.
  std::optional<std::pair<int64_t, CheckpointContent>> read_newest() const;

  /// One checkpoint. @throws Error(kBadData) naming what is broken.
  CheckpointContent read(int64_t update) const;

  /// Removes all but the `keep` newest and `best` (if ≥ 0), and left-overs of interrupted writes.
  void prune(int64_t keep, int64_t best) const;

  /// Updates that have a checkpoint, ascending; whether they are whole is not checked.
  std::vector<int64_t> updates() const;

  std::filesystem::path path_of(int64_t update) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace autotrain
