#include "model/linear.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/cpu/Utils.h>
#include <ATen/native/quantized/PackedParams.h>
#include <ATen/ops/quantize_per_channel.h>
#include <torch/nn/functional/linear.h>

#include "model/few_rows.h"

namespace autotrain {
namespace {

using PackedWeights = c10::intrusive_ptr<LinearPackedParamsBase>;

PackedWeights pack(const torch::Tensor& weight, const torch::Tensor& bias) {
  static const auto prepack = c10::Dispatcher::singleton()
                                  .findSchemaOrThrow("quantized::linear_prepack", "")
                                  .typed<PackedWeights(at::Tensor, std::optional<at::Tensor>)>();
  // Symmetric: the largest weight of an output becomes ±127.
  const torch::Tensor scales = weight.abs().amax(1).clamp_min(1e-12).div(127).to(torch::kFloat64);
  const torch::Tensor rounded = at::quantize_per_channel(
      weight.contiguous(), scales, at::zeros({weight.size(0)}, torch::kInt64), 0, torch::kQInt8);
  return prepack.call(rounded, bias.defined() ? std::optional(bias) : std::nullopt);
}

// Without the VNNI instructions two products are added in sixteen bits, which holds inputs of seven bits
// only.
torch::Tensor multiply(const torch::Tensor& inputs, const PackedWeights& weights) {
  static const auto linear = c10::Dispatcher::singleton()
                                 .findSchemaOrThrow("quantized::linear_dynamic", "")
                                 .typed<at::Tensor(at::Tensor, const PackedWeights&, bool)>();
  static const bool reduce_range = !at::cpu::is_avx512_vnni_supported();
  return linear.call(inputs, weights, reduce_range);
}

}  // namespace

struct LinearImpl::Packed {
  PackedWeights weights;
};

torch::Tensor LinearImpl::forward(const torch::Tensor& inputs) {
  if (!packed_) {
    const torch::Tensor in_use = weight_in_use();
    if (takes_columns(inputs, in_use)) return linear_by_columns(inputs, in_use, bias);
    return torch::nn::functional::linear(inputs, in_use, bias);
  }
  return multiply(inputs, packed_->weights);
}

void LinearImpl::quantize() {
  const torch::NoGradGuard no_gradients;
  packed_ = std::make_shared<Packed>(Packed{pack(weight.detach(), bias.defined() ? bias.detach() : bias)});
  weight.set_data(torch::empty({0}));
}

int64_t quantize_linear_layers(torch::nn::Module& module) {
  int64_t layers = 0;
  for (const auto& part : module.modules()) {
    auto* const layer = part->as<LinearImpl>();
    if (layer == nullptr) continue;
    layer->quantize();
    ++layers;
  }
  return layers;
}

}  // namespace autotrain
