#pragma once

#include <string>
#include <vector>

#include "autotrain/named_tensor.h"

namespace autotrain {

/// A layer some of whose outputs can be left out, and who sees them: they are named by their parts of the
/// model.
struct ChannelGroup {
  std::string producer;  ///< a linear layer or a convolution
  std::vector<std::string> followers =
      {};                     ///< layers of normalisation that keep numbers for each of its outputs
  std::string consumer = {};  ///< whose inputs they are, and nobody's else
};

/// The inner layers of a built-in model whose outputs one other layer alone reads: hidden units of an mlp,
/// channels and hidden units of a cnn, the inner channels of a residual block (what is added to a shortcut
/// stays whole), the feed-forward units of a transformer's block.
/// @param model its name in the recipe. @param tensors its weights.
/// Empty: its layers are not known, or it has none of these.
std::vector<ChannelGroup> channel_groups(const std::string& model, const std::vector<NamedTensor>& tensors);

/// The tensors of a smaller model, in which each group's producer has lost that share of its outputs: those
/// whose weights have the smallest sum of magnitudes (Li et al. 2017, arXiv:1608.08710, section 3.1), one at
/// least stays. Beside each producer stands which ones were kept.
std::vector<NamedTensor> without_channels(const std::vector<NamedTensor>& tensors,
                                          const std::vector<ChannelGroup>& groups, double share);

/// The query heads that share keys and values, with those, as outputs of the layer that makes all of them.
struct HeadGroups {
  std::string producer;  ///< [(served + 2) · groups · head_size, …]: queries, then keys, then values
  std::string consumer;  ///< [out, served · groups · head_size]
  int64_t served = 1;    ///< query heads of a group
  int64_t head_size = 0;
};

/// Those of a transformer's blocks. @param heads, kv_heads of the whole model, as the recipe has them.
/// Empty: the tensors are of another model.
std::vector<HeadGroups> head_groups(const std::vector<NamedTensor>& tensors, int64_t heads, int64_t kv_heads);

/// The same for groups of heads: those go whose weights for queries, keys and values have the smallest sum of
/// magnitudes.
std::vector<NamedTensor> without_heads(const std::vector<NamedTensor>& tensors,
                                       const std::vector<HeadGroups>& layers, double share);

}  // namespace autotrain
