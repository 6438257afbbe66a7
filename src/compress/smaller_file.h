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
  std::set<std::string> experts = {};     ///< of these, stacks of linear layers: [experts, out, in]
  std::set<std::string> inputs_first = {};  ///< of these, those whose first dimension are the inputs
  /// Large ones of at least two dimensions of which nobody knows how they are multiplied by, and whether: no
  /// method changes them.
  std::vector<std::string> others = {};
  std::map<std::string, torch::Tensor> stays =
      {};               ///< of weights that were pruned before: bool, false where zero stays
  bool pruned = false;  ///< before, so that a file of the weights as they are has to say so
};

/// What a file of this method holds, as compressed_file.h describes.
/// @throws Error(kBadRecipe) where the method is not for this model, or would change nothing of it;
/// Error(kBadData) naming a weight that is not finite.
std::vector<NamedTensor> smaller_tensors(const CompressionSource& source, const CompressionMethod& method);

/// Writes them. The weights as they are make an ordinary file, unless they were pruned before.
/// @throws Error(kInputOutput).
void write_smaller(const std::filesystem::path& path, const CompressionSource& source,
                   const CompressionMethod& method, const std::vector<NamedTensor>& tensors);

/// The weights that products multiply by, and large other ones, that the method leaves as they are; none of
/// kChannels and kHeads, which take outputs of layers.
std::vector<std::string> left_whole(const CompressionSource& source, const CompressionMethod& method);

/// How many of the weights the method changes; of kChannels and kHeads, the layers that got smaller.
/// @param stored what smaller_tensors made.
int64_t changed_weights(const CompressionSource& source, const CompressionMethod& method,
                        const std::vector<NamedTensor>& stored);

/// What kChannels and kHeads took out, in words: "12 of 48 outputs of 2 layers". "": of all other methods.
std::string taken_out(const CompressionSource& source, const CompressionMethod& method,
                      const std::vector<NamedTensor>& stored);

/// The bytes of each weight that products multiply by, kept so.
std::map<std::string, int64_t> product_bytes(const CompressionSource& source,
                                             const std::vector<NamedTensor>& stored);

}  // namespace autotrain
