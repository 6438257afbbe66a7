#include "compress/channels.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "base/text.h"
#include "model/compressed_file.h"

namespace autotrain {
namespace {

using Names = std::set<std::string>;

bool has_weight(const Names& names, const std::string& part) {
  return names.contains(part + ".weight");
}

std::vector<ChannelGroup> hidden_layers(const Names& names) {
  std::vector<ChannelGroup> groups;
  for (int64_t i = 0; has_weight(names, cat("hidden", i)); ++i) {
    const std::string next = cat("hidden", i + 1);
    groups.push_back({.producer = cat("hidden", i), .consumer = has_weight(names, next) ? next : "output"});
  }
  return groups;
}

// Inner convolutions of a block; what the last one gives is added to the shortcut.
std::vector<ChannelGroup> inner_convolutions(const Names& names) {
  std::vector<ChannelGroup> groups;
  for (const std::string& name : names) {
    if (!name.starts_with("layer") || !name.ends_with(".conv1.weight")) continue;
    const std::string block = name.substr(0, name.size() - std::string("conv1.weight").size());
    const auto group = [&](const char* from, const char* norm, const char* to) {
      if (has_weight(names, block + to))
        groups.push_back({.producer = block + from, .followers = {block + norm}, .consumer = block + to});
    };
    group("conv1", "bn1", "conv2");
    if (has_weight(names, block + "conv3")) group("conv2", "bn2", "conv3");
  }
  return groups;
}

std::vector<ChannelGroup> feed_forward_layers(const Names& names) {
  std::vector<ChannelGroup> groups;
  for (int64_t i = 0; has_weight(names, cat("block", i, ".expand")); ++i)
    groups.push_back({.producer = cat("block", i, ".expand"), .consumer = cat("block", i, ".contract")});
  return groups;
}

// Takes outputs out of the tensors of one group after the other.
class Pruning {
 public:
  explicit Pruning(const std::vector<NamedTensor>& tensors) {
    for (const NamedTensor& item : tensors) tensors_[item.name] = item.tensor;
  }

  void prune(const ChannelGroup& group, double share) {
    const torch::Tensor weight = tensors_.at(group.producer + ".weight");
    const int64_t channels = weight.size(0);
    const torch::Tensor kept = strongest(magnitudes(weight), left_of(channels, share));
    keep_produced(group.producer, kept);
    for (const std::string& follower : group.followers) keep_outputs(follower, kept);
    keep_inputs(group.consumer, channels, kept);
  }

  // Rows of the producer are (served queries, keys, values) of each group, by kind: [served + 2 parts of all
  // groups].
  void prune(const HeadGroups& layer, double share) {
    const torch::Tensor weight = tensors_.at(layer.producer + ".weight");
    const int64_t groups = weight.size(0) / ((layer.served + 2) * layer.head_size);
    const int64_t queries = layer.served * groups * layer.head_size;
    const torch::Tensor rows = at::arange(weight.size(0), torch::kInt64);
    const torch::Tensor of_queries = rows.narrow(0, 0, queries).view({groups, -1});
    const torch::Tensor of_keys_values =
        rows.narrow(0, queries, rows.numel() - queries).view({2, groups, -1});
    const torch::Tensor rows_of_group = at::cat({of_queries, of_keys_values[0], of_keys_values[1]}, 1);
    const torch::Tensor strength =
        magnitudes(weight).index_select(0, rows_of_group.flatten()).view({groups, -1}).sum(1);
    const torch::Tensor kept = strongest(strength, left_of(groups, share));
    const torch::Tensor kept_rows =
        at::cat({of_queries.index_select(0, kept).flatten(), of_keys_values.index_select(1, kept).flatten()});
    keep_produced(layer.producer, kept_rows);
    keep_inputs(layer.consumer, groups, kept);
  }

  template <class Group>
  static std::vector<NamedTensor> pruned(const std::vector<NamedTensor>& tensors,
                                         const std::vector<Group>& groups, double share) {
    const torch::NoGradGuard no_gradients;
    Pruning pruning(tensors);
    for (const Group& group : groups) pruning.prune(group, share);
    return pruning.take();
  }

 private:
  std::vector<NamedTensor> take() const {
    std::vector<NamedTensor> tensors;
    for (const auto& [name, tensor] : tensors_) tensors.push_back({name, tensor});
    return tensors;
  }

  static int64_t left_of(int64_t channels, double share) {
    return std::max<int64_t>(1, std::llround(static_cast<double>(channels) * (1 - share)));
  }

  // The sum of the magnitudes of each output's weights.
  static torch::Tensor magnitudes(const torch::Tensor& weight) {
    return weight.reshape({weight.size(0), -1}).abs().sum(1, false, torch::kFloat64);
  }

  // In the order in which they stand.
  static torch::Tensor strongest(const torch::Tensor& strength, int64_t count) {
    const torch::Tensor order = strength.argsort(/*stable=*/true, 0, /*descending=*/true);
    return std::get<0>(order.narrow(0, 0, count).sort());
  }

  void keep_produced(const std::string& producer, const torch::Tensor& kept) {
    keep_outputs(producer, kept);
    torch::Tensor& noted = tensors_[name_of_kept(producer)];
    noted = noted.defined() ? noted.index_select(0, kept) : kept;  // of the model that was never pruned
  }

  void keep_outputs(const std::string& part, const torch::Tensor& kept) {
    for (const std::string& name : std::array<std::string, 5>{".weight", name_of_stays(".weight"), ".bias",
                                                              ".running_mean", ".running_var"}) {
      const auto found = tensors_.find(part + name);
      if (found != tensors_.end()) found->second = found->second.index_select(0, kept);
    }
  }

  // A flattened image has several inputs of each channel.
  void keep_inputs(const std::string& part, int64_t channels, const torch::Tensor& kept) {
    for (const std::string& name : {part + ".weight", name_of_stays(part + ".weight")}) {
      const auto found = tensors_.find(name);
      if (found == tensors_.end()) continue;
      const int64_t each = found->second.size(1) / channels;
      const torch::Tensor inputs = (kept.unsqueeze(1) * each + at::arange(each, torch::kInt64)).flatten();
      found->second = found->second.index_select(1, inputs);
    }
  }

  std::map<std::string, torch::Tensor> tensors_;
};

}  // namespace

std::vector<ChannelGroup> channel_groups(const std::string& model, const std::vector<NamedTensor>& tensors) {
  Names names;
  for (const NamedTensor& item : tensors) names.insert(item.name);
  std::vector<ChannelGroup> groups;
  if (model == "mlp") groups = hidden_layers(names);
  if (model == "cnn")
    groups = {{.producer = "conv1", .consumer = "conv2"},
              {.producer = "conv2", .consumer = "hidden"},
              {.producer = "hidden", .consumer = "output"}};
  if (model.starts_with("resnet")) groups = inner_convolutions(names);
  if (model == "transformer") groups = feed_forward_layers(names);
  return groups;
}

std::vector<NamedTensor> without_channels(const std::vector<NamedTensor>& tensors,
                                          const std::vector<ChannelGroup>& groups, double share) {
  return Pruning::pruned(tensors, groups, share);
}

std::vector<HeadGroups> head_groups(const std::vector<NamedTensor>& tensors, int64_t heads,
                                    int64_t kv_heads) {
  Names names;
  int64_t width = 0;
  for (const NamedTensor& item : tensors) {
    names.insert(item.name);
    if (item.name == "block0.projection.weight") width = item.tensor.size(0);
  }
  std::vector<HeadGroups> layers;
  for (int64_t i = 0; has_weight(names, cat("block", i, ".qkv")); ++i) {
    layers.push_back({.producer = cat("block", i, ".qkv"),
                      .consumer = cat("block", i, ".projection"),
                      .served = heads / kv_heads,
                      .head_size = width / heads});
  }
  return layers;
}

std::vector<NamedTensor> without_heads(const std::vector<NamedTensor>& tensors,
                                       const std::vector<HeadGroups>& layers, double share) {
  return Pruning::pruned(tensors, layers, share);
}

}  // namespace autotrain
