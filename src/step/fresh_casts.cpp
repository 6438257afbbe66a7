#include "step/fresh_casts.h"

#include <ATen/autocast_mode.h>

#include <algorithm>
#include <utility>

namespace autotrain {
namespace {

std::vector<const void*> places_of(const std::vector<torch::Tensor>& weights) {
  std::vector<const void*> places;
  for (const torch::Tensor& weight : weights)
    places.push_back(weight.has_storage() ? weight.const_data_ptr() : nullptr);
  return places;
}

}  // namespace

FreshCasts::FreshCasts(const torch::nn::Module& module)
    : weights_(module.parameters()), places_(places_of(weights_)), scope_(*this) {}

void FreshCasts::look() {
  std::vector<const void*> places = places_of(weights_);
  if (places == places_) return;
  places_ = std::move(places);
  at::autocast::clear_cache();
}

void FreshCasts::start(const at::RecordFunction& operation) {
  written_.for_each(operation, [&](const torch::Tensor& written) {
    const auto is_written = [&](const torch::Tensor& weight) { return share_memory(weight, written); };
    if (std::ranges::any_of(weights_, is_written)) at::autocast::clear_cache();
  });
}

}  // namespace autotrain
