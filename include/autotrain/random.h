#pragma once

#include <torch/types.h>

#include "autotrain/batch.h"

namespace autotrain {

/// The generator from which a run draws on the CPU what does not name one (dropout, `torch::randn`): in code
/// of a task, while a trainer works. It is the run's own, seeded for every micro-batch by seed, window and
/// offset, and for every place in which a task acts; LibTorch's global generator is the program's. Elsewhere,
/// the global one.
at::Generator cpu_generator();

/// Standard normal numbers of the shape, type and device of `like`, [n, …]: row i depends on the key of the
/// batch's i-th sample alone, so that a loss that draws is the same however an update is cut, over however
/// many ranks, and after a resume. Without gradient.
/// @param batch of a task with `names_samples`. @param draw tells the draws of a pass apart: 0, 1, …
/// @throws Error(kBrokenContract) when the batch has no keys, or another number of samples than `like` has
/// rows.
torch::Tensor randn_like(const torch::Tensor& like, const Batch& batch, int64_t draw);

/// Likewise, uniform in [0, 1).
torch::Tensor rand_like(const torch::Tensor& like, const Batch& batch, int64_t draw);

}  // namespace autotrain
