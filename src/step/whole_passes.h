#pragma once

#include <vector>

#include "autotrain/task.h"

namespace autotrain {

/// What all lanes of an update have embedded.
struct WholeBatch {
  torch::Tensor
      embeddings;  ///< [N, …], of the type of its parts: lane after lane, the batches of each in their order
  int64_t first = 0;  ///< where those of this rank's batches begin; they lie one behind the other
};

/// Passes from which a loss over the whole update can be computed, whichever lanes and ranks have its parts.
class WholePasses : public Passes {
 public:
  /// Whether the batch here is the only one of the update.
  virtual bool one_batch() const = 0;

  /// From here on random numbers are those of the loss: alike on all ranks, however the update is cut.
  virtual void seed_loss() = 0;

  /// Everybody's embeddings, alike on all ranks. Every rank calls it once, whether it has batches or none.
  /// @param parts of each batch here: [n, …] float32 or float64, without gradient.
  /// @throws FailureElsewhere, Error and StopElsewhere as `gather_rows`; Error(kBrokenContract) where the
  /// task did not say that it compares samples, or calls it again.
  virtual WholeBatch gather(std::vector<torch::Tensor> parts) = 0;

  /// Adds the gradient of the loss, which every rank has computed, to those of the parameters that it has
  /// itself: once.
  virtual void backward_of_loss(const torch::Tensor& sum) = 0;

  /// Takes the i-th batch's part of the gradient back to the parameters, after those of the batches before.
  virtual void backward_of(size_t i, const torch::Tensor& outputs, const torch::Tensor& gradient) = 0;
};

}  // namespace autotrain
