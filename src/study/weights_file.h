#pragma once

#include <torch/types.h>

#include <filesystem>
#include <optional>
#include <vector>

#include "autotrain/named_tensor.h"
#include "autotrain/recipe.h"

namespace autotrain {

/// The model in a checkpoint under its own names: averages where there are some, adapters merged into the
/// weights that they change. Of a tensor with several names (tied weights) every name has a copy, so that
/// `load_state_dict` finds them all.
/// @throws Error(kBadData) when the checkpoint is damaged or is of another recipe.
std::vector<NamedTensor> trained_weights(const std::filesystem::path& checkpoint, const Recipe& recipe);

/// The tensors with every floating-point one in this type. @throws Error(kBadData) naming a tensor that holds
/// a finite number beyond the type's range.
std::vector<NamedTensor> in_type(const std::vector<NamedTensor>& tensors, torch::ScalarType type);

/// Whether `write_model` can write a file of this name. @throws Error(kUsage) where it ends in nothing known.
void check_ending(const std::filesystem::path& path);

/// Writes a model's weights as safetensors, of a pruned one as compressed_file.h describes, so that whoever
/// reads it takes its shape; where the run's model is a TorchScript file and `path` ends in
/// .pt, as that module with these weights.
/// @throws Error(kUsage) for another ending, Error(kBadRecipe) for a .pt of another model,
/// Error(kMissingFile, kBadData) when the model's file is not what it was, Error(kInputOutput).
void write_model(const Recipe& recipe, const std::vector<NamedTensor>& tensors,
                 const std::filesystem::path& path);

/// Writes a run's adapters into a folder as peft (https://github.com/huggingface/peft) keeps them:
/// `adapter_model.safetensors` with base_model.model.<module>.lora_A.weight [rank, in] and lora_B.weight
/// [out, rank], and the modules that were trained whole; and `adapter_config.json`.
/// @param type of floating-point numbers; nothing: as they are.
/// @throws Error(kBadRecipe) when the run has none, or one of a weight that peft does not adapt;
/// Error(kInputOutput).
void write_adapters(const std::filesystem::path& checkpoint, const Recipe& recipe,
                    std::optional<torch::ScalarType> type, const std::filesystem::path& folder);

}  // namespace autotrain
