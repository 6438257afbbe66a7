#include "optim/weight_average.h"

#include <cmath>

namespace autotrain {

WeightAverage::WeightAverage(std::vector<NamedTensor> parameters, double half_life_samples)
    : parameters_(std::move(parameters)), half_life_samples_(half_life_samples) {
  for (const NamedTensor& parameter : parameters_) averages_.push_back(parameter.tensor.detach().clone());
}

void WeightAverage::set_update_samples(int64_t samples) {
  if (active()) keep_ = std::exp2(-static_cast<double>(samples) / half_life_samples_);
}

torch::Tensor WeightAverage::step_for(const torch::Tensor& skipped) const {
  return active() ? (1 - keep_) * (1 - skipped) : torch::Tensor();
}

void WeightAverage::update(const torch::Tensor& step) {
  const torch::NoGradGuard no_gradients;
  for (size_t i = 0; i < averages_.size(); ++i) averages_[i].lerp_(parameters_[i].tensor, step);
}

void WeightAverage::restart() {
  const torch::NoGradGuard no_gradients;
  for (size_t i = 0; i < averages_.size(); ++i) averages_[i].copy_(parameters_[i].tensor);
}

void WeightAverage::swap() {
  for (size_t i = 0; i < averages_.size(); ++i) {
    const torch::Tensor live = parameters_[i].tensor.detach();
    parameters_[i].tensor.set_data(averages_[i]);
    averages_[i] = live;
  }
}

std::vector<NamedTensor> WeightAverage::state() const {
  std::vector<NamedTensor> all;
  for (size_t i = 0; i < averages_.size(); ++i) all.push_back({parameters_[i].name, averages_[i]});
  return all;
}

}  // namespace autotrain
