#include "compress/smaller_file.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "autotrain/error.h"
#include "base/text.h"
#include "compress/channels.h"
#include "model/compressed_file.h"
#include "model/models.h"

namespace autotrain {
namespace {

// Whether the method keeps weights in another form, and not fewer of them.
bool changes_form(const CompressionMethod& method) {
  return method.kind != Compression::kNone && method.kind != Compression::kChannels &&
         method.kind != Compression::kHeads;
}

bool changes(const CompressionSource& source, const CompressionMethod& method, const NamedTensor& item) {
  if (!changes_form(method)) return false;
  if (!source.products.contains(item.name) || item.tensor.numel() == 0) return false;
  if (method.kind != Compression::kSparse) return true;
  return !source.experts.contains(item.name) && has_groups_of_four(item.tensor.sizes());
}

bool is_stays(const NamedTensor& item) {
  return item.name.ends_with(name_of_stays(""));
}

void check_finite(const NamedTensor& item) {
  if (item.tensor.to(torch::kFloat32).isfinite().all().item<bool>()) return;
  throw Error(ExitCode::kBadData, item.name,
              "holds numbers that are not finite, which have no scale and no order",
              "take another checkpoint");
}

// Of experts each output of each has a scale.
Int8Weight rounded_to_int8(const torch::Tensor& weight, bool of_experts) {
  if (!of_experts) return to_int8(weight);
  const Int8Weight rows = to_int8(weight.flatten(0, 1));
  return {rows.values.view(weight.sizes()), rows.scale.view({weight.size(0), weight.size(1)})};
}

Int4Weight rounded_to_int4(const torch::Tensor& weight, int64_t group, bool of_experts) {
  Int4Weight stored = to_int4(of_experts ? weight.flatten(0, 1) : weight, group);
  stored.shape = weight.sizes().vec();
  return stored;
}

std::vector<NamedTensor> stored_by(const CompressionMethod& method, const NamedTensor& item,
                                   bool of_experts) {
  const torch::Tensor weight = item.tensor.to(torch::kFloat32).contiguous();
  switch (method.kind) {
    case Compression::kInt8:
    case Compression::kInt8Weights: return stored_as(item.name, rounded_to_int8(weight, of_experts));
    case Compression::kInt4Weights:
      return stored_as(item.name, rounded_to_int4(weight, method.group, of_experts));
    case Compression::kSparse: return stored_as(item.name, to_sparse(weight));
    case Compression::kNone:
    case Compression::kChannels:
    case Compression::kHeads: break;
  }
  return {item};
}

// Of models that are built in, whose layers are known by their names.
std::vector<ChannelGroup> channels_of(const CompressionSource& source) {
  std::vector<ChannelGroup> groups = channel_groups(source.model.name, source.tensors);
  if (!groups.empty()) return groups;
  throw Error(
      ExitCode::kBadRecipe, "channels",
      cat("of model ", source.model.name,
          " are not pruned: which layers read which channels is not known of it"),
      "prune an mlp, cnn, resnet or a transformer without experts; 2:4 and int8-weights take every model");
}

std::vector<HeadGroups> heads_of(const CompressionSource& source) {
  std::vector<HeadGroups> layers;
  for (const ModelRow& row : model_table()) {
    if (row.spec.name != source.model.name || row.spec.name != "transformer") continue;
    const Parameters parameters(source.model, row.spec);
    const int64_t heads = parameters.integer("heads");
    layers = head_groups(source.tensors, heads, parameters.optional_integer("kv_heads").value_or(heads));
  }
  if (!layers.empty()) return layers;
  throw Error(ExitCode::kBadRecipe, "heads", cat("of model ", source.model.name, " are not pruned"),
              "prune those of model transformer; 2:4 and int8-weights take every model");
}

// What was zero before stays so: a bit for each weight. The places of 2:4 do not say it of four that have
// more than two zeros, as when channels were pruned since.
void add_stays(const CompressionSource& source, std::vector<NamedTensor>& stored) {
  for (const NamedTensor& item : source.tensors) {
    const auto stays = source.stays.find(item.name);
    if (stays != source.stays.end()) stored.push_back({name_of_stays(item.name), to_bits(stays->second)});
  }
}

// Masks go the way of their weights.
std::vector<NamedTensor> with_masks(const CompressionSource& source) {
  std::vector<NamedTensor> tensors = source.tensors;
  for (const auto& [name, stays] : source.stays) tensors.push_back({name_of_stays(name), stays});
  return tensors;
}

std::vector<NamedTensor> with_bits(std::vector<NamedTensor> tensors) {
  for (NamedTensor& item : tensors) {
    if (is_stays(item)) item.tensor = to_bits(item.tensor);
  }
  return tensors;
}

// The name of the tensor that something stored belongs to: "fc.weight" of "fc.weight.scale".
bool belongs_to(const std::string& stored, const std::string& name) {
  return stored == name || stored.starts_with(name + ".");
}

}  // namespace

std::vector<NamedTensor> smaller_tensors(const CompressionSource& source, const CompressionMethod& method) {
  const torch::NoGradGuard no_gradients;
  if (method.kind != Compression::kNone) {
    for (const NamedTensor& item : source.tensors)
      if (source.products.contains(item.name)) check_finite(item);
  }
  if (method.kind == Compression::kChannels)
    return with_bits(without_channels(with_masks(source), channels_of(source), method.share));
  if (method.kind == Compression::kHeads)
    return with_bits(without_heads(with_masks(source), heads_of(source), method.share));
  std::vector<NamedTensor> stored;
  for (const NamedTensor& item : source.tensors) {
    if (!changes(source, method, item)) {
      stored.push_back(item);
      continue;
    }
    for (NamedTensor& each : stored_by(method, item, source.experts.contains(item.name)))
      stored.push_back(std::move(each));
  }
  add_stays(source, stored);
  return stored;
}

void write_smaller(const std::filesystem::path& path, const CompressionSource& source,
                   const CompressionMethod& method, const std::vector<NamedTensor>& tensors) {
  const bool ordinary = method.kind == Compression::kNone && !source.pruned;
  ordinary ? write_safetensors(path, tensors) : write_compressed(path, tensors, method.name);
}

std::vector<std::string> left_whole(const CompressionSource& source, const CompressionMethod& method) {
  if (!changes_form(method)) return {};
  std::vector<std::string> names = source.unknown_stacks;
  for (const NamedTensor& item : source.tensors) {
    if (source.products.contains(item.name) && !changes(source, method, item)) names.push_back(item.name);
  }
  return names;
}

int64_t changed_weights(const CompressionSource& source, const CompressionMethod& method) {
  if (method.kind == Compression::kChannels) return static_cast<int64_t>(channels_of(source).size());
  if (method.kind == Compression::kHeads) return static_cast<int64_t>(heads_of(source).size());
  return std::ranges::count_if(source.tensors,
                               [&](const NamedTensor& item) { return changes(source, method, item); });
}

int64_t product_bytes(const CompressionSource& source, const std::vector<NamedTensor>& stored) {
  double bytes = 0;
  for (const NamedTensor& item : stored) {
    if (is_stays(item)) continue;  // no pass reads it
    const auto weight = std::ranges::find_if(
        source.products, [&](const std::string& name) { return belongs_to(item.name, name); });
    if (weight == source.products.end()) continue;
    const auto of_experts = source.experts.find(*weight);
    const double share = of_experts == source.experts.end() ? 1 : of_experts->second;
    bytes += share * static_cast<double>(item.tensor.nbytes());
  }
  return std::llround(bytes);
}

}  // namespace autotrain
