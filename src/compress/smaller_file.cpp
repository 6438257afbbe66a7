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

bool takes_outputs(const CompressionMethod& method) {
  return method.kind == Compression::kChannels || method.kind == Compression::kHeads;
}

// Whether the method keeps weights in another form, and not fewer of them.
bool changes_form(const CompressionMethod& method) {
  return method.kind != Compression::kNone && !takes_outputs(method);
}

bool changes(const CompressionSource& source, const CompressionMethod& method, const NamedTensor& item) {
  if (!changes_form(method)) return false;
  if (!source.products.contains(item.name) || item.tensor.numel() == 0) return false;
  // With one input for each output a scale would take more than what it is the scale of.
  if (method.kind != Compression::kSparse) return item.tensor.numel() > item.tensor.size(0);
  return !source.experts.contains(item.name) && !source.inputs_first.contains(item.name) &&
         has_groups_of_four(item.tensor.sizes());
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

// What went of the outputs of layers, or of their groups of heads.
struct Pruned {
  int64_t layers = 0, smaller_layers = 0;
  int64_t outputs = 0, gone = 0, most = 0;  // of all layers; most: of one
};

const char* outputs_in_words(const CompressionMethod& method, int64_t count) {
  if (method.kind == Compression::kHeads) return count == 1 ? "group of heads" : "groups of heads";
  return count == 1 ? "output" : "outputs";
}

int64_t rows_of(const std::vector<NamedTensor>& tensors, const std::string& part) {
  const auto weight = std::ranges::find(tensors, part + ".weight", &NamedTensor::name);
  return weight == tensors.end() ? 0 : weight->tensor.size(0);
}

Pruned pruning_of(const CompressionSource& source, const CompressionMethod& method,
                  const std::vector<NamedTensor>& stored) {
  Pruned pruned;
  const auto add = [&](const std::string& part, int64_t rows) {
    const int64_t before = rows_of(source.tensors, part) / rows, after = rows_of(stored, part) / rows;
    ++pruned.layers;
    if (after < before) ++pruned.smaller_layers;
    pruned.outputs += before;
    pruned.gone += before - after;
    pruned.most = std::max(pruned.most, before);
  };
  if (method.kind == Compression::kChannels) {
    for (const ChannelGroup& group : channels_of(source)) add(group.producer, 1);
  } else {
    for (const HeadGroups& layer : heads_of(source))
      add(layer.producer, (layer.served + 2) * layer.head_size);
  }
  return pruned;
}

// A file in which nothing is smaller is not what was asked for.
void check_smaller(const CompressionSource& source, const CompressionMethod& method,
                   const std::vector<NamedTensor>& stored) {
  const Pruned pruned = pruning_of(source, method, stored);
  if (pruned.gone > 0) return;
  const char* const outputs = outputs_in_words(method, pruned.most);
  if (pruned.most <= 1)
    throw Error(ExitCode::kBadRecipe, method.name,
                cat("each layer has 1 ", outputs, ", of which none can go"),
                "2:4 and int8-weights take every model");
  throw Error(ExitCode::kBadRecipe, method.name,
              cat("no layer has more than ", pruned.most, " ", outputs, ", and a share of ",
                  brief(method.share), " of them is less than half of one"),
              "give a larger share");
}

// Weights as they are under a method's name would pass for what the method costs.
void check_changed(const CompressionSource& source, const CompressionMethod& method) {
  if (!changes_form(method)) return;
  if (std::ranges::any_of(source.tensors,
                          [&](const NamedTensor& item) { return changes(source, method, item); })) {
    return;
  }
  const bool sparse = method.kind == Compression::kSparse;
  throw Error(
      ExitCode::kBadRecipe, method.name,
      sparse ? "changes no weight of this model: none that it multiplies by has inputs in groups of four "
               "(in the last dimension, and not of experts)"
             : "changes no weight of this model: none that it multiplies by has more than one input "
               "for each output",
      sparse ? "int8-weights and int4-weights take any number of inputs" : "leave it out of --methods");
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

// Whether something stored is a weight, or stands for it: "fc.weight..scale" for "fc.weight".
bool belongs_to(const std::string& stored, const std::string& name) {
  return stored == name || stored.starts_with(name + "..");
}

}  // namespace

std::vector<NamedTensor> smaller_tensors(const CompressionSource& source, const CompressionMethod& method) {
  const torch::NoGradGuard no_gradients;
  if (method.kind != Compression::kNone) {
    for (const NamedTensor& item : source.tensors)
      if (source.products.contains(item.name)) check_finite(item);
  }
  std::vector<NamedTensor> stored;
  if (takes_outputs(method)) {
    stored = method.kind == Compression::kChannels
                 ? without_channels(with_masks(source), channels_of(source), method.share)
                 : without_heads(with_masks(source), heads_of(source), method.share);
    check_smaller(source, method, stored);
    return with_bits(std::move(stored));
  }
  check_changed(source, method);
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
  std::vector<std::string> names = source.others;
  for (const NamedTensor& item : source.tensors) {
    if (source.products.contains(item.name) && !changes(source, method, item)) names.push_back(item.name);
  }
  return names;
}

int64_t changed_weights(const CompressionSource& source, const CompressionMethod& method,
                        const std::vector<NamedTensor>& stored) {
  if (takes_outputs(method)) return pruning_of(source, method, stored).smaller_layers;
  return std::ranges::count_if(source.tensors,
                               [&](const NamedTensor& item) { return changes(source, method, item); });
}

std::string taken_out(const CompressionSource& source, const CompressionMethod& method,
                      const std::vector<NamedTensor>& stored) {
  if (!takes_outputs(method)) return "";
  const Pruned pruned = pruning_of(source, method, stored);
  return cat(pruned.gone, " of ", pruned.outputs, " ", outputs_in_words(method, pruned.outputs), " of ",
             pruned.layers, pruned.layers == 1 ? " layer" : " layers");
}

std::map<std::string, int64_t> product_bytes(const CompressionSource& source,
                                             const std::vector<NamedTensor>& stored) {
  std::map<std::string, int64_t> bytes;
  for (const NamedTensor& item : stored) {
    if (is_stays(item)) continue;  // no pass reads it
    const auto weight = std::ranges::find_if(
        source.products, [&](const std::string& name) { return belongs_to(item.name, name); });
    if (weight != source.products.end()) bytes[*weight] += static_cast<int64_t>(item.tensor.nbytes());
  }
  return bytes;
}

}  // namespace autotrain
