#pragma once

#include <torch/nn/module.h>

#include <vector>

#include "autotrain/named_tensor.h"

namespace autotrain {

/// Which parameters of a module are decayed where `decay_all` does not ask for all: those with two sizes
/// above 1 or more, that no normalisation owns. A weight of a linear layer, a convolution, an embedding or
/// the like is always one of them, a layer with a single output too. Modules say by their types' names what
/// they are, and where there is no type, by their own ("encoder.ln_1", "norm").
/// @param parameters of the module, by their names there.
std::vector<bool> decayed_by_rule(const torch::nn::Module& module,
                                  const std::vector<NamedTensor>& parameters);

/// The same of a parameter whose module is not known.
bool decayed_by_shape(const torch::Tensor& parameter);

}  // namespace autotrain
