#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace autotrain {

// Large models come in several safetensors files, shards, beside an index that says which tensor is in which:
// model.safetensors.index.json with a `weight_map` {tensor: file}, as Hugging Face's writers make them.

/// The file of weights that a path of a user's stands for: itself, a safetensors file or an index; of a
/// folder, the index or the safetensors file that it holds. What is not there is left to whoever opens it.
/// @throws Error(kBadData) for a shard by itself, a file of another format (foreign_weights.h), and a folder
/// that holds several of these; Error(kMissingFile) for one that holds none, naming its newest checkpoint
/// where it is a run's.
std::filesystem::path weights_named(const std::filesystem::path& path);

/// Whether it is an index, by its ending.
bool is_weight_index(const std::filesystem::path& file);

struct WeightShard {
  std::filesystem::path path = {};
  std::set<std::string> names = {};  ///< of the tensors that the index says are in it
};

/// The shards of an index, in the order of their names, all of which are there.
/// @throws Error(kBadData) where it is no index, names a tensor twice or a file outside its folder;
/// Error(kMissingFile) naming a shard that is not there, or the index.
std::vector<WeightShard> read_weight_index(const std::filesystem::path& index);

}  // namespace autotrain
