#pragma once

#include <torch/nn/module.h>

#include <string>

namespace autotrain {

/// The part of a module that has the tensor of this name: "a.b" for "a.b.weight". Parts that are not there
/// are made: they hold tensors, and compute nothing.
torch::nn::Module& part_with(torch::nn::Module& module, const std::string& tensor);

}  // namespace autotrain
