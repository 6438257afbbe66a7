#pragma once

#include <functional>

#include "autotrain/task.h"

namespace autotrain {

/// The gradient of a loss over the whole batch, such as a contrastive one, in micro-batches (GradCache, Gao
/// et al. 2021): every micro-batch is embedded without a graph, the loss is differentiated by the embeddings,
/// and each micro-batch is embedded again, with the same random numbers, to take its part back to the
/// parameters. Memory is that of one micro-batch and of all embeddings with their loss. For `Task::passes`.
///
/// What a forward pass leaves in buffers (running statistics) is left twice.
/// @param embed [n, …] for n samples, with gradient. @param loss of all embeddings, [N, …] in the order of
/// the batches: the sum and weight that the whole update has.
LossTerms in_two_passes(Passes& passes, const std::function<torch::Tensor(const Batch& batch)>& embed,
                        const std::function<LossTerms(const torch::Tensor& embeddings)>& loss);

}  // namespace autotrain
