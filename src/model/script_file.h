#pragma once

#include <torch/csrc/jit/api/module.h>

#include <filesystem>

namespace autotrain {

/// Reads a TorchScript file. Buffers have memory of their own for each of their numbers, as what is written
/// to needs it.
/// @throws Error(kMissingFile, kBadData) that says what the file is, where that can be told.
torch::jit::Module load_script(const std::filesystem::path& path);

/// Refuses a module that does in training what it did when it was traced, or what was made for inference;
/// warns of one that draws random numbers in every mode.
/// @throws Error(kBadRecipe, kBadData).
void check_script_trains(const torch::jit::Module& module, const std::string& path);

}  // namespace autotrain
