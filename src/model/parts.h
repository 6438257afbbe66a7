#pragma once

#include <torch/nn/module.h>

#include <string>

namespace autotrain {

/// The part of a module that has the tensor of this name: "a.b" for "a.b.weight". Parts that are not there
/// are made: they hold tensors, compute nothing, and are of the kind "".
torch::nn::Module& part_with(torch::nn::Module& module, const std::string& tensor);

/// Makes the part of that path, below those that are there. @param type what the module's author calls its
/// kind ("LayerNorm"), which is its name() from now on.
void make_part(torch::nn::Module& module, const std::string& path, const std::string& type);

}  // namespace autotrain
