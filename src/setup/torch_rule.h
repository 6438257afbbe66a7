#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "autotrain/torch_optimizer.h"
#include "optim/optimizer.h"
#include "plan/workbench.h"

namespace autotrain {

/// Makes one optimizer of several of LibTorch's kind, each over the parameters that its patterns match. The
/// rate of an update is a factor of each one's own.
/// @throws Error (when it is called): kUsage for names and patterns, and a parameter that none or two of them
/// match; kBrokenContract for one that cannot be continued by what it saves.
MakeOptimizer torch_optimizers(std::vector<TorchOptimizer> own);

/// For some parameters that have one rate and one decay.
using MakeTorchOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(
    std::vector<torch::Tensor> parameters, double weight_decay)>;

/// Likewise, of one for each rate and decay that the recipe's groups have; the recipe's rate is set.
std::unique_ptr<Optimizer> make_torch_rule(const std::string& name, const MakeTorchOptimizer& make,
                                           Trained trained);

}  // namespace autotrain
