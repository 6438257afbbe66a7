#include "plan/scopes.h"

namespace autotrain {

ScalerScope::ScalerScope(const GradScaler& scaler) : state_(scaler.state()) {
  for (const NamedTensor& value : state_) copies_.push_back(value.tensor.clone());
}

ScalerScope::~ScalerScope() {
  put_back([&] {
    const torch::NoGradGuard no_gradients;
    for (size_t i = 0; i < state_.size(); ++i) state_[i].tensor.copy_(copies_[i]);
  });
}

}  // namespace autotrain
