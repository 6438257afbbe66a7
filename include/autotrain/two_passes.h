#pragma once

#include <functional>

#include "autotrain/task.h"

namespace autotrain {

/// The gradient of a loss over the whole batch, such as a contrastive one, in micro-batches (GradCache, Gao
/// et al. 2021): every micro-batch is embedded without a graph, the loss is differentiated by the embeddings,
/// and each micro-batch is embedded again, with the same random numbers, to take its part back to the
/// parameters. Memory is that of one micro-batch and of all embeddings with their loss. For `Task::passes`.
///
/// What a forward pass leaves in buffers (running statistics) is left twice. An update that is one
/// micro-batch is embedded once. With several lanes and ranks, every rank calls it once, with batches or
/// without, and gets the embeddings of all, lane after lane.
/// @param embed [n, …] for n samples, with gradient. @param loss of all embeddings, [N, …], in which the
/// batches here may have but a part: the sum and weight that the whole update has. What it learns by itself
/// is counted once.
LossTerms in_two_passes(Passes& passes, const std::function<torch::Tensor(const Batch& batch)>& embed,
                        const std::function<LossTerms(const torch::Tensor& embeddings)>& loss);

}  // namespace autotrain
