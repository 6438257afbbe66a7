#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "autotrain/named_tensor.h"
#include "checkpoint/safetensors.h"
#include "model/rounding.h"

namespace autotrain {

// Files of smaller weights, which are safetensors as others. What stands in the place of a tensor NAME says
// by its own names how it is kept:
//
//     NAME.int8    NAME.scale                 eight bits
//     NAME.int4    NAME.scale     NAME.shape  four bits
//     NAME.sparse  NAME.places    NAME.shape  2:4
//
// and PART.kept, int64 [n] beside PART.weight, which outputs of that layer are left. rounding.h describes
// them.

/// The tensors that stand in the place of one.
std::vector<NamedTensor> stored_as(const std::string& name, const Int8Weight& weight);
std::vector<NamedTensor> stored_as(const std::string& name, const Int4Weight& weight);
std::vector<NamedTensor> stored_as(const std::string& name, const SparseWeight& weight);

/// The name under which a file says which outputs of a layer are left.
std::string name_of_kept(const std::string& part);

/// What such a file holds.
struct CompressedWeights {
  std::vector<NamedTensor> tensors = {};            ///< under the model's names, in its own type
  std::map<std::string, torch::Tensor> stays = {};  ///< of 2:4 weights: bool, false where zero stays zero
  std::map<std::string, torch::Tensor> kept = {};   ///< of layers with fewer outputs, by PART: int64 [n]

  bool is_pruned() const { return !stays.empty() || !kept.empty(); }
};

/// Nothing: the file is an ordinary one, or the index of several.
/// @throws Error(kMissingFile, kBadData).
std::optional<CompressedWeights> read_compressed(const std::filesystem::path& path);

/// As list_safetensors and read_some_safetensors, of files of both kinds: weights are as they were, but for
/// what was rounded or left out.
std::vector<TensorEntry> list_weights(const std::filesystem::path& path);
void read_some_weights(const std::filesystem::path& path,
                       const std::function<torch::Tensor(const TensorEntry&)>& target);

}  // namespace autotrain
