#pragma once

#include <torch/types.h>

#include <vector>

#include "autotrain/recipe.h"
#include "optim/optimizer.h"

namespace autotrain {

/// The gradient scaler of mixed precision, with the semantics of torch.amp.GradScaler: multiply the
/// loss by a scale; after an update with non-finite gradients, back off; after `growth_interval`
/// updates without, grow; never below `min_scale`.
///
/// Lives in every mode: without `dynamic` the scale is 1 and stays. State is on the device and is
/// changed there, without host synchronisation.
class GradScaler {
 public:
  GradScaler(const ScalerRecipe& recipe, bool dynamic, torch::Device device);

  /// Scalar float32.
  const torch::Tensor& scale() const { return scale_; }

  /// Once an update. found_inf: scalar float32, 1 when gradients were not finite, else 0.
  void update(const torch::Tensor& found_inf);

  /// The live tensors: `scale` and `growth_tracker`.
  std::vector<NamedTensor> state() const;

 private:
  ScalerRecipe recipe_;
  bool dynamic_;
  torch::Tensor scale_;
  torch::Tensor growth_tracker_;
};

}  // namespace autotrain
