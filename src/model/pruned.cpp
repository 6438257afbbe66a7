#include "model/pruned.h"

#include <filesystem>
#include <functional>
#include <memory>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/text.h"
#include "checkpoint/weight_files.h"
#include "model/models.h"
#include "model/name_patterns.h"

namespace autotrain {
namespace {

std::map<std::string, torch::Tensor> tensors_by_name(const torch::nn::Module& module) {
  std::map<std::string, torch::Tensor> tensors;
  for (const auto& item : module.named_parameters()) tensors.emplace(item.key(), item.value());
  for (const auto& item : module.named_buffers()) tensors.emplace(item.key(), item.value());
  return tensors;
}

bool is_part_of(c10::IntArrayRef smaller, c10::IntArrayRef whole) {
  return smaller.size() == whole.size() &&
         std::equal(smaller.begin(), smaller.end(), whole.begin(), std::less_equal<>());
}

// The file of the first weights; nothing, with a warning, where it cannot be found any more: a run that goes
// on needs it for this alone, and one that begins is told when they are read.
std::optional<std::filesystem::path> file_of(const WeightsRecipe& recipe) {
  std::string why = "is not there";
  try {
    const std::filesystem::path file = weights_named(*recipe.file);
    std::error_code error;
    if (std::filesystem::exists(file, error)) return file;
  } catch (const Error& error) {
    why = error.problem();
  }
  log::warn("model", cat("the file of the first weights, ", *recipe.file, ", ", why,
                         ": had they been pruned, neither their shapes nor their zeros would be kept"));
  return std::nullopt;
}

}  // namespace

std::optional<CompressedWeights> pruned_by_file(const WeightsRecipe& recipe) {
  const std::optional<std::filesystem::path> file = recipe.file ? file_of(recipe) : std::nullopt;
  if (!file) return std::nullopt;
  std::optional<CompressedWeights> weights = read_compressed(*file);
  const bool in_part = !recipe.skip.empty() || !recipe.rename.empty() || recipe.shapes != Unmatched::kFail;
  if (weights && weights->is_pruned() && in_part) {
    throw Error(
        ExitCode::kBadRecipe, "model.weights",
        cat("takes ", *recipe.file, " in part or under other names, and pruned weights are taken whole"),
        "leave skip, rename and shapes out; or prune the model after it was fine-tuned");
  }
  return weights;
}

void check_still_pruned(const CompressedWeights& pruned, const std::vector<NamedTensor>& trained,
                        const WeightsRecipe& recipe) {
  for (const NamedTensor& item : trained) {
    const auto stays = pruned.stays.find(item.name);
    const auto kept = pruned.kept.find(part_of(item.name));
    const bool zeros_stayed =
        stays == pruned.stays.end() ||
        (stays->second.sizes() == item.tensor.sizes() &&
         item.tensor.ne(0).logical_and(stays->second.logical_not()).any().item<bool>() == false);
    const bool has_outputs = kept == pruned.kept.end() || !item.name.ends_with(".weight") ||
                             (item.tensor.dim() > 0 && item.tensor.size(0) == kept->second.numel());
    if (zeros_stayed && has_outputs) continue;
    throw Error(ExitCode::kBadData, *recipe.file,
                cat("is where the run's first weights were, and holds others now: the run's ", item.name,
                    " has not its ", zeros_stayed ? "shape" : "zeros"),
                "put back the file that the run began with");
  }
}

void take_pruned_shapes(const CompressedWeights& weights, torch::nn::Module& module) {
  if (weights.kept.empty()) return;
  const torch::NoGradGuard no_gradients;
  std::map<std::string, torch::Tensor> live = tensors_by_name(module);
  for (const NamedTensor& item : weights.tensors) {
    const auto found = live.find(item.name);
    if (found == live.end() || found->second.sizes() == item.tensor.sizes()) continue;
    torch::Tensor& tensor = found->second;
    if (!is_part_of(item.tensor.sizes(), tensor.sizes())) {
      throw Error(ExitCode::kBadData, "model.weights",
                  cat("has ", item.name, " ", item.tensor.sizes(), ", of which the recipe's model has ",
                      tensor.sizes()),
                  "name the model that the weights were pruned of");
    }
    tensor.set_data(torch::zeros(item.tensor.sizes(), tensor.options().requires_grad(false)));
  }
}

void keep_pruned_zeros(const CompressedWeights& weights, torch::nn::Module& module) {
  const Network* const network = as_network(module);
  std::map<std::string, torch::Tensor> live = tensors_by_name(module);
  for (const auto& [name, stays] : weights.stays) {
    if (network != nullptr && network->adapters().contains(name)) {
      throw Error(ExitCode::kBadRecipe, "model.lora",
                  cat("adapts ", name,
                      ", of which the file of model.weights has zeros that stay: what an adapter adds "
                      "would fill them"),
                  "leave that weight out of model.lora.match, or let it learn whole");
    }
    const auto found = live.find(name);
    if (found == live.end() || !found->second.requires_grad()) continue;
    const auto mask = std::make_shared<torch::Tensor>(stays);  // moved to the model's device once
    found->second.register_hook([mask](const torch::Tensor& gradient) {
      if (mask->device() != gradient.device()) *mask = mask->to(gradient.device());
      return gradient * *mask;
    });
  }
}

}  // namespace autotrain
