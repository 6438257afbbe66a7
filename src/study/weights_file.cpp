#include "study/weights_file.h"

#include <set>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/json.h"
#include "base/text.h"
#include "checkpoint/file_notes.h"
#include "checkpoint/safetensors.h"
#include "model/adapter.h"
#include "model/exported_file.h"
#include "model/name_patterns.h"
#include "model/pruned.h"
#include "model/torchscript.h"
#include "study/trained_run.h"

namespace autotrain {
namespace fs = std::filesystem;
namespace {

// What peft puts before every name of the model that it wraps.
constexpr const char* kPeftPrefix = "base_model.model.";

// transformers takes no file that does not say of whose tensors it is.
FileNotes of_pytorch() {
  return {{"format", "pt"}};
}

// The tensors of a file, and copies of those that it has under further names.
std::vector<NamedTensor> with_other_names(std::vector<NamedTensor> tensors, const fs::path& file) {
  std::map<std::string, torch::Tensor> by_name;
  for (const NamedTensor& item : tensors) by_name.emplace(item.name, item.tensor);
  for (const auto& [name, first_name] : read_safetensors_metadata(file)) {
    const auto first = by_name.find(first_name);
    if (first != by_name.end()) tensors.push_back({name, first->second.clone()});
  }
  return tensors;
}

// Beside the weights of a model that was pruned, which outputs its layers have, and which zeros stay.
std::vector<NamedTensor> with_what_is_left(std::vector<NamedTensor> tensors,
                                           const CompressedWeights& pruned) {
  for (const auto& [part, kept] : pruned.kept) tensors.push_back({name_of_kept(part), kept});
  for (const auto& [name, stays] : pruned.stays) tensors.push_back({name_of_stays(name), to_bits(stays)});
  return tensors;
}

// The names of a run's adapted weights, by those of their halves.
std::vector<std::string> adapted_parts(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> parts;
  for (const NamedTensor& item : tensors) {
    const std::string part = part_of(part_of(item.name));  // "fc" of "fc.lora_A.weight"
    if (item.name == name_of_a(part + ".weight")) parts.push_back(part);
  }
  return parts;
}

void check_layers(const std::vector<NamedTensor>& tensors, const std::vector<std::string>& parts,
                  const fs::path& checkpoint) {
  if (parts.empty()) {
    throw Error(ExitCode::kBadRecipe, checkpoint.string(), "holds no adapters: its run had no model.lora",
                "leave out --adapters for the whole model");
  }
  std::set<std::string> names;
  for (const NamedTensor& item : tensors) names.insert(item.name);
  for (const std::string& part : parts) {
    if (names.contains(part + ".weight")) continue;
    throw Error(
        ExitCode::kBadRecipe, checkpoint.string(),
        cat("adapts ", part, ", which is not the weight of a module: peft has no name for its adapter"),
        "leave out --adapters: what it changes is then part of the weight");
  }
}

// The adapted parts whose weights are [inputs, outputs], as transformers' Conv1D has them. To peft, as to us,
// an adapter is one of [outputs, inputs].
std::set<std::string> turned_parts(const Recipe& recipe, const std::vector<std::string>& adapted) {
  std::set<std::string> turned;
  if (recipe.model.name != "exported") return turned;
  const ExportedFile file = read_exported_file(std::get<std::string>(recipe.model.parameters.at("file")));
  for (const std::string& part : adapted) {
    const auto type = file.module_types.find(part);
    if (type != file.module_types.end() && type->second == "Conv1D") turned.insert(part);
  }
  return turned;
}

// W + B·A of a weight [inputs, outputs] is (Wᵀ + Aᵀ·Bᵀ)ᵀ: the halves change places.
NamedTensor turned_half(const NamedTensor& half) {
  const std::string weight = part_of(part_of(half.name)) + ".weight";
  const std::string& other = half.name == name_of_a(weight) ? name_of_b(weight) : name_of_a(weight);
  return {other, half.tensor.t().contiguous()};
}

// @param turned whether there is an adapter of a weight [inputs, outputs].
nlohmann::ordered_json peft_config(const LoraRecipe& lora, const std::vector<std::string>& adapted,
                                   const std::set<std::string>& whole, bool turned) {
  return {
      {"peft_type", "LORA"},
      {"task_type", nullptr},
      {"base_model_name_or_path", nullptr},
      {"inference_mode", true},
      {"r", lora.rank_used()},
      {"lora_alpha", lora.alpha_used()},
      {"lora_dropout", 0.0},
      {"target_modules", adapted},
      {"modules_to_save", whole.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(whole)},
      {"bias", "none"},
      {"fan_in_fan_out", turned},
      {"init_lora_weights", true},
      {"use_rslora", false}};
}

}  // namespace

std::vector<NamedTensor> trained_weights(const fs::path& checkpoint, const Recipe& recipe) {
  const fs::path file = evaluated_weights(checkpoint);
  std::vector<NamedTensor> tensors = read_safetensors(file);
  if (recipe.lora.active()) tensors = merged(tensors, recipe.lora.scale());
  return with_other_names(std::move(tensors), file);
}

std::vector<NamedTensor> in_type(const std::vector<NamedTensor>& tensors, torch::ScalarType type) {
  std::vector<NamedTensor> converted;
  for (const NamedTensor& item : tensors) {
    if (!item.tensor.is_floating_point()) {
      converted.push_back(item);
      continue;
    }
    const torch::Tensor rounded = item.tensor.to(type);
    if (rounded.isinf().logical_and(item.tensor.isfinite()).any().item<bool>()) {
      throw Error(ExitCode::kBadData, item.name,
                  cat("holds ", brief(item.tensor.abs().max().item<double>()),
                      ", which is beyond the range of ", c10::toString(type)),
                  "bf16 has the range of fp32");
    }
    converted.push_back({item.name, rounded});
  }
  return converted;
}

void check_ending(const fs::path& path) {
  if (path.extension() == ".safetensors" || path.extension() == ".pt") return;
  throw Error(ExitCode::kUsage, path.string(), "has no known ending",
              "end it in .safetensors; or in .pt for the TorchScript of a run of model: torchscript");
}

void write_model(const Recipe& recipe, const std::vector<NamedTensor>& tensors, const fs::path& path) {
  check_ending(path);
  const std::optional<CompressedWeights> pruned = pruned_by_file(recipe.weights);
  if (pruned) check_still_pruned(*pruned, tensors, recipe.weights);
  const bool reshaped = pruned && !pruned->kept.empty();
  if (pruned && !reshaped && !pruned->stays.empty()) {
    log::warn("model",
              "the run's weights have zeros that stayed, 2:4: the file holds them as ordinary numbers, which "
              "training that begins with it fills; autotrain compress writes files in which they stay");
  }
  if (path.extension() == ".safetensors") {
    if (!reshaped) return write_safetensors(path, tensors, of_pytorch());
    return write_compressed(path, with_what_is_left(tensors, *pruned), "export");
  }
  const auto file = recipe.model.parameters.find("file");
  if (recipe.model.name != "torchscript" || file == recipe.model.parameters.end()) {
    throw Error(ExitCode::kBadRecipe, path.string(),
                cat("is to be TorchScript, and the run's model is ", recipe.model.name),
                "name a file that ends in .safetensors");
  }
  write_torchscript(std::get<std::string>(file->second), tensors, path);
}

void write_adapters(const fs::path& checkpoint, const Recipe& recipe, std::optional<torch::ScalarType> type,
                    const fs::path& folder) {
  const fs::path file = evaluated_weights(checkpoint);
  const std::vector<NamedTensor> tensors = with_other_names(read_safetensors(file), file);
  const std::vector<std::string> adapted =
      recipe.lora.active() ? adapted_parts(tensors) : std::vector<std::string>();
  check_layers(tensors, adapted, checkpoint);
  std::set<std::string> whole;
  for (const NamedTensor& item : tensors) {
    for (const std::string& pattern : recipe.lora.train)
      if (takes(pattern, item.name)) whole.insert(part_of(item.name));
  }
  for (const std::string& part : adapted) {
    if (!whole.contains(part)) continue;
    throw Error(ExitCode::kBadRecipe, checkpoint.string(),
                cat("adapts ", part, " and trains another tensor of it whole: peft cannot keep both"),
                "leave out --adapters: the whole model has both");
  }
  const std::set<std::string> turned = turned_parts(recipe, adapted);
  std::vector<NamedTensor> kept;
  for (const NamedTensor& item : tensors) {
    const bool is_half = is_adapter_tensor(item.name);
    if (!is_half && !whole.contains(part_of(item.name))) continue;
    const NamedTensor as_peft =
        is_half && turned.contains(part_of(part_of(item.name))) ? turned_half(item) : item;
    kept.push_back({kPeftPrefix + as_peft.name, as_peft.tensor});
  }
  make_folders(folder);
  write_safetensors(folder / "adapter_model.safetensors", type ? in_type(kept, *type) : kept, of_pytorch());
  write_file(folder / "adapter_config.json",
             text_of_json(peft_config(recipe.lora, adapted, whole, !turned.empty())));
}

}  // namespace autotrain
