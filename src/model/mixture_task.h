#pragma once

#include <memory>

#include "autotrain/recipe.h"
#include "autotrain/task.h"
#include "model/models.h"

namespace autotrain {

/// Trains a network with layers of experts: to the loss of a batch comes `ExpertOptions::balance` times the
/// unevenness of its gates, each sequence weighing as many tokens as its loss counts. Both are sums over
/// sequences, so that an update is the same however it is cut. Parts of the loss: `task` (without that),
/// `balance` (the mean of all layers; 1 is even) and `dropped` (choices beyond a capacity, for each token).
/// @param choice the recipe's loss, of which `loss` was made. Precondition: the network is a Mixture.
std::unique_ptr<Task> make_mixture_task(std::shared_ptr<Network> network, const Choice& choice, Loss loss);

}  // namespace autotrain
