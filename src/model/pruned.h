#pragma once

#include <torch/nn/module.h>

#include <optional>

#include "autotrain/recipe.h"
#include "model/compressed_file.h"

namespace autotrain {

/// What the file of a recipe's first weights says of them, if it is one of smaller weights. Nothing too where
/// it is not there: whoever needs its numbers says so.
std::optional<CompressedWeights> pruned_by_file(const WeightsRecipe& recipe);

/// Gives the layers of a model, which computes with whatever shape its tensors have, as many outputs and
/// inputs as the file has of them. What they hold then is zero. To be called before anything refers to their
/// shapes: adapters, optimizers. @throws Error(kBadData) where the file cannot be a smaller one of this
/// model.
void take_pruned_shapes(const CompressedWeights& weights, torch::nn::Module& module);

/// Checks that the weights that a run came to have the shapes and zeros of the file of its first weights.
/// @throws Error(kBadData) where they do not, as when the file was written anew since.
void check_still_pruned(const CompressedWeights& pruned, const std::vector<NamedTensor>& trained,
                        const WeightsRecipe& recipe);

/// Keeps what is zero in 2:4 weights at zero from now on: no gradient reaches it, and no optimizer of ours
/// moves a zero whose gradients are all zero. To be called when it is known which parameters learn.
/// @throws Error(kBadRecipe) where adapters would fill the zeros.
void keep_pruned_zeros(const CompressedWeights& weights, torch::nn::Module& module);

}  // namespace autotrain
