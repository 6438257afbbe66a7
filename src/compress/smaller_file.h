#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "autotrain/named_tensor.h"
#include "autotrain/recipe.h"
#include "compress/method.h"

namespace autotrain {

/// The weights of a model that become smaller.
struct CompressionSource {
  Choice model = {};                      ///< as the recipe names it
  std::vector<NamedTensor> tensors = {};  ///< each once
  std::set<std::string> products = {};    ///< names of those that linear layers and convolutions multiply by
  /// Of these, those of experts, several linear layers in one tensor [experts, out, in], and the share of it
  /// that the counted pass read: tokens go to some of the experts.
  std::map<std::string, double> experts = {};
  std::vector<std::string> unknown_stacks = {};  ///< others of that kind, which no method changes
  std::map<std::string, torch::Tensor> stays =
      {};               ///< of weights that were pruned before: bool, false where zero stays
  bool pruned = false;  ///< before, so that a file of the weights as they are has to say so
};

/// What a file of this method holds, as compressed_file.h describes.
/// @throws Error(kBadRecipe) where the method is not for this model, Error(kBadData) naming a weight that is
/// not finite.
std::vector<NamedTensor> smaller_tensors(const CompressionSource& source, const CompressionMethod& method);

/// Writes them. The weights as they are make an ordinary file, unless they were pruned before.
/// @throws Error(kInputOutput).
void write_smaller(const std::filesystem::path& path, const CompressionSource& source,
                   const CompressionMethod& method, const std::vector<NamedTensor>& tensors);

/// The weights that products multiply by and the method leaves as they are; none of kChannels and kHeads,
/// which take outputs of layers.
std::vector<std::string> left_whole(const CompressionSource& source, const CompressionMethod& method);

/// How many of the weights the method changes.
int64_t changed_weights(const CompressionSource& source, const CompressionMethod& method);

/// Bytes that a pass reads of the weights that products multiply by, kept so.
int64_t product_bytes(const CompressionSource& source, const std::vector<NamedTensor>& stored);

}  // namespace autotrain
