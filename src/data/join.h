#pragma once

#include <optional>
#include <vector>

#include "autotrain/batch.h"

namespace autotrain {

/// Batches one below the other, in their order, as one: the bits and the layout in memory that a data set
/// gives the same samples when it is asked for all at once. Nothing where they do not fit together, as padded
/// to other lengths. Copied in LibTorch's threads. Precondition: at least one batch, all in main memory.
std::optional<Batch> joined(const std::vector<Batch>& parts);

/// The samples [first, first + count) of a batch, without a copy.
Batch rows_of(const Batch& batch, int64_t first, int64_t count);

/// The batch in pinned memory, from which it is copied to a GPU without a wait. What lies on a GPU stays
/// there.
Batch pinned(const Batch& batch);

/// How many bytes its tensors hold.
int64_t bytes_of(const Batch& batch);

/// How many bytes all these tensors hold; memory that several share counts for each of them.
int64_t bytes_of(const std::vector<torch::Tensor>& tensors);

}  // namespace autotrain
