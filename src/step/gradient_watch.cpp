#include "step/gradient_watch.h"

namespace autotrain {
namespace {

int64_t version_of(const torch::Tensor& gradient) {
  return gradient.defined() ? static_cast<int64_t>(gradient._version()) : 0;
}

}  // namespace

GradientWatch::GradientWatch(const std::vector<NamedTensor>& parameters) : parameters_(parameters) {
  note();
}

void GradientWatch::note() {
  seen_.clear();
  for (const NamedTensor& parameter : parameters_) {
    const torch::Tensor& gradient = parameter.tensor.grad();
    seen_.push_back({gradient, version_of(gradient)});
  }
}

bool GradientWatch::is_as_seen(size_t i, bool in_place) const {
  const torch::Tensor& gradient = parameters_[i].tensor.grad();
  const Seen& seen = seen_[i];
  return gradient.is_same(seen.gradient) && !(in_place && version_of(gradient) != seen.version);
}

std::string GradientWatch::first_changed() const {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!is_as_seen(i, /*in_place=*/true)) return parameters_[i].name;
  }
  return "";
}

std::string GradientWatch::first_set(bool in_place) const {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].tensor.grad().defined() && !is_as_seen(i, in_place)) return parameters_[i].name;
  }
  return "";
}

}  // namespace autotrain
