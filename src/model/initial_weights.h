#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <string>
#include <vector>

#include "autotrain/named_tensor.h"
#include "autotrain/recipe.h"

namespace autotrain {

/// Lists by name what became of a model's tensors when its first weights were read.
struct WeightsTaken {
  std::vector<std::string> taken = {};
  std::vector<std::string> skipped = {};     ///< of the model, or of the file alone, as asked
  std::vector<std::string> missing = {};     ///< not in the file
  std::vector<std::string> reshaped = {};    ///< of another shape there
  std::vector<std::string> left = {};        ///< of the file, that the model has no place for
  std::vector<std::string> idle_rules = {};  ///< of model.weights.rename, that match nothing in the file
};

/// Fills parameters and buffers of `module` from the file that the recipe names, half precision becoming the
/// module's own type. Precondition: it names one.
/// @throws Error(kMissingFile, kBadData) naming the tensors that do not match, or those that differ and are
/// one in the model, and Error(kBadRecipe) for a pattern that matches nothing and rules that give two one
/// name.
WeightsTaken take_weights(const WeightsRecipe& recipe, const torch::nn::Module& module);

/// "took 60 tensors; not taken, as asked: fc.weight, fc.bias".
std::string describe(const WeightsTaken& weights);

/// Freezes the parameters of which `freezes` says so, by any of their names.
/// @return the parts with parameters of their own that are all frozen.
/// @throws Error(kBadRecipe) when nothing is left to learn.
std::vector<torch::nn::Module*> freeze_parameters(const std::function<bool(const NamedTensor&)>& freezes,
                                                  torch::nn::Module& module);

}  // namespace autotrain
