#pragma once

#include <torch/nn/module.h>

#include <string>

namespace autotrain {

/// Whether a module is of a program's own code, and not one that a recipe names.
bool runs_own_code(const torch::nn::Module& module);

/// Rethrows the exception under way, which came from the user's own `method`, as Error(kBrokenContract).
/// Errors of ours, and memory that ran out, stay what they are.
/// @param with what the method was called with: "on a batch of [8, 3, 32, 32]"; may be empty.
[[noreturn]] void rethrow_from_user(const std::string& method, const std::string& with);

}  // namespace autotrain
