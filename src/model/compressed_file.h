#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "autotrain/named_tensor.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/weight_files.h"
#include "model/rounding.h"

namespace autotrain {

// Files of smaller weights: safetensors whose metadata say that they are such, in which version of this
// format, and which method made them. In them, and in no others, what stands in the place of a tensor NAME
// says by its own names how it is kept:
//
//     NAME..int8    NAME..scale                 eight bits
//     NAME..int4    NAME..scale    NAME..shape  four bits
//     NAME..sparse  NAME..places   NAME..shape  2:4
//
// NAME..stays beside any of them, or beside NAME itself, has a bit for each weight: 0 where one was pruned
// before and stays zero. PART..kept, int64 [n] beside PART.weight, says which outputs of that layer are
// left. rounding.h describes them. No tensor of a model has a name with two dots in a row; version 1 of the
// format, which is read too, had one.

/// The tensors that stand in the place of one.
std::vector<NamedTensor> stored_as(const std::string& name, const Int8Weight& weight);
std::vector<NamedTensor> stored_as(const std::string& name, const Int4Weight& weight);
std::vector<NamedTensor> stored_as(const std::string& name, const SparseWeight& weight);

/// The names under which a file says which outputs of a layer are left, and which weights.
std::string name_of_kept(const std::string& part);
std::string name_of_stays(const std::string& weight);

/// Whether a tensor is called as those are by which such a file keeps weights. Others may be, too.
bool looks_compressed(const std::string& name);

/// Writes such a file. @param method in words of its user: "int4-weights:32". @throws Error(kInputOutput).
void write_compressed(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                      const std::string& method);

/// What such a file holds.
struct CompressedWeights {
  std::vector<NamedTensor> tensors = {};            ///< under the model's names, in its own type
  std::map<std::string, torch::Tensor> stays = {};  ///< of pruned weights: bool, false where zero stays zero
  std::map<std::string, torch::Tensor> kept = {};   ///< of layers with fewer outputs, by PART: int64 [n]

  bool is_pruned() const { return !stays.empty() || !kept.empty(); }
};

/// Nothing: the file is an ordinary one, whatever its tensors are called, or the index of several.
/// @param path of the file, or of its folder (weight_files.h).
/// @throws Error(kMissingFile, kBadData), also where it is of a newer version than this program reads.
std::optional<CompressedWeights> read_compressed(const std::filesystem::path& path);

/// Weights of either kind, as safetensors.h reads ordinary ones: weights are as they were, but for
/// what was rounded or left out. Smaller ones are read once and held; of an ordinary file nothing is, nor of
/// those beside an index, each of whose tensors is read from the one that holds it.
class WeightsFile {
 public:
  /// @param path of a file, an index or a folder that holds one. @throws as read_compressed, weights_named
  /// and read_weight_index, and Error(kBadData) where an index and a file of it differ about its tensors, or
  /// that file is one of smaller weights.
  explicit WeightsFile(const std::filesystem::path& path);

  /// Lists the tensors as list_safetensors does.
  std::vector<TensorEntry> list() const;

  /// Reads those that are wanted as read_some_safetensors does.
  void read_some(const std::function<torch::Tensor(const TensorEntry&)>& target) const;

 private:
  std::vector<WeightShard> files_;  // the shards of an index, or one file
  std::optional<CompressedWeights> compressed_;
};

}  // namespace autotrain
