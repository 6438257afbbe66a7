#include "optim/scaler.h"

#include <ATen/ops/_amp_update_scale.h>

namespace autotrain {

GradScaler::GradScaler(const ScalerRecipe& recipe, bool dynamic, torch::Device device)
    : recipe_(recipe), dynamic_(dynamic) {
  const auto options = torch::TensorOptions().device(device);
  scale_ = torch::full({}, dynamic ? recipe.initial_scale : 1.0, options.dtype(torch::kFloat32));
  growth_tracker_ = torch::zeros({}, options.dtype(torch::kInt32));
}

void GradScaler::update(const torch::Tensor& found_inf) {
  if (!dynamic_) return;
  at::_amp_update_scale_(scale_, growth_tracker_, found_inf, recipe_.growth_factor, recipe_.backoff_factor,
                         recipe_.growth_interval);
  scale_.clamp_min_(recipe_.min_scale);
}

std::vector<NamedTensor> GradScaler::state() const {
  return {{"scale", scale_}, {"growth_tracker", growth_tracker_}};
}

}  // namespace autotrain
