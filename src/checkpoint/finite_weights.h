#pragma once

#include <torch/nn/module.h>

#include <string>

namespace autotrain {

/// Refuses a module with parameters of which a number is not finite, as a run leaves them that has diverged:
/// everything that is computed of them would be no number either. Buffers may hold such, as masks do.
/// @param where the weights are from. @throws Error(kBadData) naming the first such parameter.
void check_finite_parameters(const torch::nn::Module& module, const std::string& where);

}  // namespace autotrain
